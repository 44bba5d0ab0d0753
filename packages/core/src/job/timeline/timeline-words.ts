/** The words of the timeline: a headline, and the next step with times from now. */
import type { Instant } from '../../time/clock.ts'
import { isTerminal, type Job } from '../job.ts'
import { SOURCE_IN_WORDS } from '../limits.ts'
import type { ClockKind, JobClock } from './clocks.ts'
import type { Consequence, Foreseen, Foresight } from './foresee.ts'

export function headlineOf(job: Job): string {
  const parts: string[] = [job.state]
  const most = Math.max(1, job.retry.maxAttempts)
  if (job.attempt > 0) parts.push(`attempt ${String(job.attempt - job.interruptions)} of ${String(most)}`)
  else if (!isTerminal(job.state)) parts.push(most === 1 ? 'one attempt' : `up to ${String(most)} attempts`)
  if (job.hold?.workerId !== null && job.hold?.workerId !== undefined) parts.push(`worker ${job.hold.workerId}`)
  return parts.join(', ')
}

const EVENTS: Readonly<Record<ClockKind | 'start', string>> = {
  scheduled_at: 'scheduled time',
  retry: 'retry',
  soft_deadline: 'asked to stop',
  hard_deadline: 'attempt ends',
  heartbeat: 'stalls without a sign of life',
  worker_death: 'worker declared dead if it stays silent',
  visibility: 'reservation lapses without a sign of life',
  ttl: 'too old to start',
  expires_at: 'too old to start',
  total: 'total deadline',
  start: 'starts',
}

const THEN: Readonly<Partial<Record<Consequence, string>>> = {
  discard: 'discarded',
  cancel: 'cancelled',
  retry_or_discard: 'retried or discarded, as its backoff leaves room or not',
}

const TOLD_STEPS = 3

/** Times are lengths from now: `1.2 s`, `4 min`, `23 h`. */
export function sentenceOf(job: Job, { steps, ends }: Foresight, clocks: readonly JobClock[], now: Instant): string {
  if (isTerminal(job.state)) return `Ended ${job.state}.`
  if (steps.length === 0)
    return job.state === 'pending' ? 'Waits to be activated, with no limit.' : 'Waits for a worker, with no limit.'
  const told = steps.slice(0, TOLD_STEPS).map((step, index) => stepInWords(step, steps[index - 1], now))
  const total = clocks.find(({ kind }) => kind === 'total')
  const isTold = steps.slice(0, TOLD_STEPS).some(({ kind }) => kind === 'total')
  const deadline =
    total === undefined || isTold
      ? ''
      : ` ${total.limit === 'total_timeout' ? 'Total' : 'Workflow'} deadline in ${lengthInWords(total.until - now)}.`
  const waits = ends === 'waiting' && steps.length <= TOLD_STEPS ? ', then waits for a worker' : ''
  return `Next: ${told.join(', ')}${waits}.${deadline}`
}

function stepInWords(
  { kind, at, latestAt, then, limit }: Foreseen,
  before: Foreseen | undefined,
  now: Instant,
): string {
  const what = kind === 'total' && limit === 'workflow_timeout' ? 'workflow deadline' : EVENTS[kind]
  const end = THEN[then] === undefined ? '' : `: ${THEN[then]}`
  if (kind === 'retry' && before?.then === 'retry') {
    const [least, most] = [at - before.at, latestAt - before.latestAt]
    const about = least === most ? lengthInWords(least) : `${lengthInWords(least)} to ${lengthInWords(most)}`
    return `${what} ${about} later${end}`
  }
  const left = at - now
  return left < 0 ? `${what} was due ${lengthInWords(-left)} ago${end}` : `${what} in ${lengthInWords(left)}${end}`
}

/** Three figures at most, with one unit. */
export function lengthInWords(ms: number): string {
  const [size, unit] =
    ms < 1_000
      ? [ms, 'ms']
      : ms < 120_000
        ? [ms / 1_000, 's']
        : ms < 7_200_000
          ? [ms / 60_000, 'min']
          : ms < 172_800_000
            ? [ms / 3_600_000, 'h']
            : [ms / 86_400_000, 'd']
  const shown = unit === 'ms' || size >= 10 ? Math.round(size) : Math.round(size * 10) / 10
  return `${String(shown)} ${unit}`
}

/** Who set a limit, as a shape that can be told apart without colour. */
export const SOURCE_CHIPS: Readonly<Record<string, string>> = {
  publish: '●',
  handler: '◆',
  type: '▲',
  queue: '■',
  fetch: '◇',
  cap: '⊤',
  default: '○',
  parent: '↑',
  workflow: '⇑',
  retry: '↻',
}

/** A source that another version wrote is shown as it is. */
export const whoSet = (source: string): string =>
  source === 'retry' ? 'retry policy' : ((SOURCE_IN_WORDS as Readonly<Record<string, string>>)[source] ?? source)
