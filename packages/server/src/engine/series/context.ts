/** What series use besides the context of all commands. */
import type { Context } from '../kernel/context.ts'
import type { SeriesKeeper } from './keeper.ts'

export interface SeriesContext extends Context {
  readonly series: SeriesKeeper
  /** Why the store cannot serve at the moment, if so. */
  readonly trouble: string | null
}
