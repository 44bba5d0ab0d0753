/** What an application wraps around every attempt, the first given outermost. */
import type { Context } from '../attempt/context.ts'

export type AttemptMiddleware = (context: Context, next: () => Promise<unknown>) => Promise<unknown>

export function compose(
  middleware: readonly AttemptMiddleware[],
  context: Context,
  innermost: () => Promise<unknown>,
): Promise<unknown> {
  const enter = (depth: number): Promise<unknown> => {
    const layer = middleware[depth]
    return layer === undefined ? innermost() : layer(context, () => enter(depth + 1))
  }
  return enter(0)
}
