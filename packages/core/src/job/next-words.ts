/** What happens next, in words. */
import { seconds, sourceInWords } from './explain-words.ts'
import type { JobState } from './job.ts'
import type { Next } from './next.ts'
import type { ClockKind } from './timeline/clocks.ts'
import type { Consequence } from './timeline/foresee.ts'

const WITHOUT_A_CLOCK: Readonly<Partial<Record<JobState, string>>> = {
  available: 'waits for a worker to fetch it, with no limit',
  pending: 'waits to be activated, with no limit',
}

const EVENTS: Readonly<Record<ClockKind, string>> = {
  scheduled_at: 'its scheduled time comes',
  retry: 'its backoff ends',
  soft_deadline: 'the handler is asked to stop',
  hard_deadline: 'the attempt is ended',
  heartbeat: 'the attempt is stalled unless a sign of life comes',
  worker_death: 'the worker is declared dead unless it is heard from',
  visibility: 'the reservation lapses unless a sign of life comes',
  ttl: 'it is too old to start',
  expires_at: 'it is too old to start',
  total: 'the job is out of time',
}

const THEN: Readonly<Record<Consequence, string>> = {
  available: 'then it is available',
  grace: 'then its grace begins',
  retry: 'then it is retried after a backoff',
  retry_or_discard: 'then it is retried after a backoff, or discarded if that does not fit into its total',
  discard: 'then it is discarded',
  cancel: 'then it is cancelled',
  attempt: 'then an attempt runs',
}

export function nextInWords(state: JobState, next: Next | null, isHeld: boolean): string {
  if (next === null && isHeld) return 'waits until that changes, with no limit'
  if (next === null) return WITHOUT_A_CLOCK[state] ?? 'nothing is pending'
  const { kind, at, limit, limit_ms: ms, source, then } = next
  const length = ms === undefined ? limit : `${limit} ${seconds(ms)}`
  return `next automatic transition at ${at}: ${EVENTS[kind]} (${length}, ${sourceInWords(source)}), ${THEN[then]}`
}
