/**
 * Unique jobs (OJS unique jobs): what makes two jobs the same work, and what happens to the second.
 *
 * A policy chooses dimensions of a job: its type (always), its queue, its arguments or some of them, some of its
 * metadata. wire/unique.ts reads policies and writes the text that is compared; the server keeps the hash of that text with
 * the job.
 *
 * Whether a job is a duplicate is decided once, when it is enqueued; retries are never asked again (§9.2).
 */
import { OjsError } from '../errors.ts'
import { isTerminal, JOB_STATES, type Job, type JobState } from './job.ts'
import type { Instant, Millis } from '../time/clock.ts'
import { after, isDue } from '../time/sums.ts'

export const DIMENSIONS = ['type', 'queue', 'args', 'meta'] as const
export type Dimension = (typeof DIMENSIONS)[number]

export const CONFLICTS = ['reject', 'replace', 'replace_except_schedule', 'ignore'] as const
export type OnConflict = (typeof CONFLICTS)[number]

export interface UniquePolicy {
  readonly keys: readonly Dimension[]
  /** Fields of the first argument; null: all arguments. */
  readonly argsKeys: readonly string[] | null
  readonly metaKeys: readonly string[]
  /** How long after a job was created another counts as its duplicate; null: for as long as its state is among `states`. */
  readonly periodMs: Millis | null
  readonly states: readonly JobState[]
  readonly onConflict: OnConflict
}

/** What an enqueue request says about its uniqueness: the policy, and the text of what it chose. */
export interface Unique {
  readonly policy: UniquePolicy
  readonly text: string
}

/** What is not over yet. */
export const WAITING_OR_ACTIVE: readonly JobState[] = JOB_STATES.filter((state) => !isTerminal(state))

/** What becomes of a new job, given the jobs that share its fingerprint. */
export type UniqueVerdict =
  | { readonly kind: 'admit'; readonly replaces: readonly Job[]; readonly scheduledLike: Job | null }
  | { readonly kind: 'keep'; readonly existing: Job }
  | { readonly kind: 'refuse'; readonly existing: Job; readonly why: 'exists' | 'active' }

/**
 * `found`: jobs with the same fingerprint. `scheduledLike` of an admission is the job whose moment is taken over, if one
 * is.
 */
export function uniqueVerdict(policy: UniquePolicy, found: readonly Job[], now: Instant): UniqueVerdict {
  const duplicates = found.filter(
    (job) =>
      policy.states.includes(job.state) &&
      (policy.periodMs === null || !isDue(after(job.createdAt, policy.periodMs), now)),
  )
  const [existing] = duplicates.sort(mostAlive)
  if (existing === undefined) return { kind: 'admit', replaces: [], scheduledLike: null }
  if (policy.onConflict === 'ignore') return { kind: 'keep', existing }
  if (policy.onConflict === 'reject') return { kind: 'refuse', existing, why: 'exists' }
  const active = duplicates.find(({ state }) => state === 'active')
  if (active !== undefined) return { kind: 'refuse', existing: active, why: 'active' }
  const replaces = duplicates.filter(({ state }) => !isTerminal(state))
  const waits = replaces.find(({ state }) => state === 'scheduled') ?? null
  return { kind: 'admit', replaces, scheduledLike: policy.onConflict === 'replace_except_schedule' ? waits : null }
}

/** Of several, the one that is not over yet; then the newest. */
function mostAlive(a: Job, b: Job): number {
  const over = Number(isTerminal(a.state)) - Number(isTerminal(b.state))
  return over !== 0 ? over : b.createdAt - a.createdAt || (b.id < a.id ? -1 : b.id > a.id ? 1 : 0)
}

export function duplicateError(
  { existing, why }: Extract<UniqueVerdict, { kind: 'refuse' }>,
  fingerprint: string,
): OjsError {
  return new OjsError(
    'duplicate',
    why === 'active'
      ? 'A job for the same work is running, and one that runs is not replaced.'
      : 'A job for the same work exists already.',
    { details: { existing_job_id: existing.id, existing_state: existing.state, unique_key: fingerprint } },
  )
}
