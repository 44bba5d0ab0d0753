/** The process tests run what is in dist, so it is built before the first of them, however vitest was started. */
import { build } from '../../scripts/build.mjs'

export async function setup(): Promise<void> {
  if ((await build()) !== 0) throw new Error('The server, the SDK or the board does not compile.')
}
