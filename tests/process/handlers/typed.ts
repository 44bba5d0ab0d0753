/** A handler as users write it: types, an enum, imports of other sources under either name, top-level await. */
import { CancelledError, defineHandler, defineJob, type Context } from '@curfew/sdk'
import { heightOf, type Size } from './sizes.js'
import fallback from './fallback.ts'

enum Codec {
  H264 = 'h264',
  AV1 = 'av1',
}

const loaded: string = await Promise.resolve('loaded')

export async function transcode(ctx: Context, [id, size]: readonly [string, Size]): Promise<object> {
  await ctx.progress(0.5)
  return { loaded, id, height: heightOf(size), codec: Codec.AV1, fallback }
}

const scale = defineJob<[factor: number]>('image.scale')
export const scaled = defineHandler(scale, (_ctx, [factor]) => factor * 2)

export async function knowsItsReason(ctx: Context): Promise<boolean> {
  await ctx.progress(0)
  while (!ctx.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 1))
  return ctx.signal.reason instanceof CancelledError
}

export function throwsInLine28(): never {
  throw new Error('here')
}
