/** Types that can simply be erased: newer Nodes load it by themselves. */
import type { Context } from '@curfew/sdk'
import fallback from './fallback.ts'

export function handler(_ctx: Context, [id]: readonly [string]): string {
  return `${id} ${fallback}`
}
