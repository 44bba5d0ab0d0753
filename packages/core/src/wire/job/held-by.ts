/** What keeps an available job from being handed out, although a worker asks for it. */
import { iso, type Instant } from '../../time/clock.ts'
import { allowance, type Limiter } from '../../job/limiter.ts'
import type { OnLimit } from '../../job/rate-limit.ts'

export interface HeldBy {
  readonly kind: 'paused_queue' | 'queue_limit' | 'key_limit'
  /** Of the queue, or of the key. */
  readonly name: string
  /** When the window of the limit has room again. */
  readonly until?: string
  /** As many jobs are active as may be: one of them must end first. */
  readonly awaits_end?: true
  /** The job does not wait for the limit: what happens to it when a worker asks for it. */
  readonly on_limit?: Exclude<OnLimit, 'wait'>
}

/** Null where the limiter has room for another job. */
export function heldByLimit(
  of: Pick<HeldBy, 'kind' | 'name'>,
  limiter: Limiter,
  active: number,
  onLimit: OnLimit,
  now: Instant,
): HeldBy | null {
  const { starts, opensAt, isFull } = allowance(limiter, active, now)
  if (starts > 0) return null
  // Where no window says when there is room, a job that wants to be put off waits.
  const waits = onLimit === 'wait' || (onLimit === 'reschedule' && opensAt === null)
  return {
    ...of,
    ...(opensAt === null ? {} : { until: iso(opensAt) }),
    ...(isFull && limiter.terms.concurrency !== 0 ? { awaits_end: true } : {}),
    ...(waits ? {} : { on_limit: onLimit }),
  }
}

export function heldInWords(held: HeldBy): string {
  if (held.kind === 'paused_queue') return 'its queue is paused'
  const limit = held.kind === 'queue_limit' ? 'the limit of its queue' : `the limit of key ${JSON.stringify(held.name)}`
  if (held.on_limit === 'drop') return `${limit} has no room, and a fetch now discards the job`
  if (held.on_limit === 'reschedule')
    return `${limit} has no room, and a fetch now puts the job off until ${held.until ?? ''}`
  return `held back by ${limit}, which ${roomInWords(held)}`
}

function roomInWords({ until, awaits_end: awaitsEnd }: HeldBy): string {
  if (awaitsEnd === true)
    return `has room when one of its active jobs ends${until === undefined ? '' : `, not before ${until}`}`
  return until === undefined ? 'lets no job start' : `has room at ${until}`
}
