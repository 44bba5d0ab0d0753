/** The limiter a job asks for. limiter.ts decides, wire/job/rate-limit.ts reads it from requests. */
import type { LimiterTerms } from './limiter.ts'

/** What to do with a job that its limiter turns away. */
export type OnLimit = 'wait' | 'reschedule' | 'drop'

export interface RateLimit {
  /** Null: the limiter of the job's queue. */
  readonly key: string | null
  /** Null: whatever terms the limiter has. */
  readonly terms: LimiterTerms | null
  readonly onLimit: OnLimit
}
