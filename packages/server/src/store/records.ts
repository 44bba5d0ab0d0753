/** What every store of rows does with records, whatever its SQL. */
import {
  instant,
  JOB_STATES,
  type Beat,
  type Hold,
  type Job,
  type JobLog,
  type JobState,
  type Owner,
  type Progress,
} from '@curfew/core'

// ---- JSON ----

export const json = (value: object | string | null): string | null => (value === null ? null : JSON.stringify(value))
export const parsed = <Value>(text: string | null): Value | null => (text === null ? null : (JSON.parse(text) as Value))

// ---- Jobs ----

/** Whether nothing has happened to a job since it was admitted: then most of its columns are empty. */
export function onlyBegins(job: Job): boolean {
  return (
    job.attempt === 0 &&
    job.lease === 0 &&
    job.interruptions === 0 &&
    job.hold === null &&
    job.closedBy === null &&
    job.activatedAt === null &&
    job.startedAt === null &&
    job.completedAt === null &&
    job.cancelledAt === null &&
    job.discardedAt === null &&
    job.reenqueuedAt === null &&
    job.nextRetryAt === null &&
    job.retryDelayMs === null &&
    job.purgeAt === null &&
    job.error === null &&
    job.errors === '' &&
    job.errorCount === 0 &&
    job.result === null &&
    job.progress === null &&
    job.log === undefined &&
    job.checkpointSeq === 0 &&
    !job.deadLetter &&
    job.cancelReason === null
  )
}

/**
 * Whether only that is changed what a claim, a result or a sign of life changes: then few columns have to be written. (A
 * record that was copied counts as changed.)
 */
export function onlyMoves(before: Job, after: Job): boolean {
  return (
    before.priority === after.priority &&
    before.deadLetter === after.deadLetter &&
    before.interruptions === after.interruptions &&
    before.anchorAt === after.anchorAt &&
    before.limitsSetAt === after.limitsSetAt &&
    before.scheduledAt === after.scheduledAt &&
    before.expiresAt === after.expiresAt &&
    before.activatedAt === after.activatedAt &&
    before.cancelledAt === after.cancelledAt &&
    before.discardedAt === after.discardedAt &&
    before.reenqueuedAt === after.reenqueuedAt &&
    before.nextRetryAt === after.nextRetryAt &&
    before.retryDelayMs === after.retryDelayMs &&
    before.resultTtlMs === after.resultTtlMs &&
    before.errorCount === after.errorCount &&
    before.checkpointSeq === after.checkpointSeq &&
    before.limits === after.limits &&
    before.retry === after.retry &&
    before.ceiling === after.ceiling &&
    before.owner === after.owner &&
    before.cancelReason === after.cancelReason &&
    before.error === after.error &&
    before.errors === after.errors &&
    before.given === after.given
  )
}

/** Its log lies beside its progress, if it has one: in the same column, where an older server leaves it. */
type ProgressColumn = Progress & { readonly log?: JobLog; readonly isLogOnly?: true }

const NO_PROGRESS: Progress = { value: null, message: null, data: null, updatedAt: instant(0), toldAt: instant(0) }

export function progressText({ progress, log }: Job): string | null {
  if (log === undefined) return json(progress)
  const column: ProgressColumn = progress === null ? { ...NO_PROGRESS, log, isLogOnly: true } : { ...progress, log }
  return JSON.stringify(column)
}

export function progressOf(text: string | null): Pick<Job, 'progress' | 'log'> {
  if (text === null) return NOTHING_REPORTED
  const { log, isLogOnly, ...progress } = JSON.parse(text) as ProgressColumn
  return { progress: isLogOnly === true ? null : progress, ...(log === undefined ? {} : { log }) }
}

const NOTHING_REPORTED: Pick<Job, 'progress' | 'log'> = { progress: null }

/** What a job keeps for life. */
export function isStillItself(before: Job, after: Job): boolean {
  return (
    before.queue === after.queue &&
    before.type === after.type &&
    before.body === after.body &&
    before.uniqueKey === after.uniqueKey &&
    before.limitKey === after.limitKey &&
    before.tenant === after.tenant
  )
}

/** An owner as one text: `workflow/0190…`. Kinds have no slash. */
export const ownerText = ({ kind, id }: Pick<Owner, 'kind' | 'id'>): string => `${kind}/${id}`

export function ownerOf(text: string, step: string | null): Owner {
  const slash = text.indexOf('/')
  return { kind: text.slice(0, slash) as Owner['kind'], id: text.slice(slash + 1), step }
}

/** What few reservations have, after what all have. */
export function holdExtras({ stack, saved }: Hold): readonly unknown[] {
  if (saved !== undefined) return [stack ?? null, saved]
  return stack === undefined ? [] : [stack]
}

// ---- Documents ----

const LAST_CHARACTER = 0x10ffff

/** The first text that sorts (by its bytes) above all that begin with this one; null: there is none above them. */
export function above(prefix: string): string | null {
  const characters = Array.from(prefix, (character) => character.codePointAt(0) ?? 0)
  while (characters.at(-1) === LAST_CHARACTER) characters.pop()
  const last = characters.pop()
  if (last === undefined) return null
  // What is between these two is half of a character.
  return String.fromCodePoint(...characters, last === 0xd7ff ? 0xe000 : last + 1)
}

// ---- Beats ----

type FlatBeat = Omit<Beat, 'jobs' | 'proofs'> & { readonly jobs: string[]; readonly proofs: string[] | null }

export function beatText({ jobs, proofs, ...rest }: Beat): string {
  return JSON.stringify({ ...rest, jobs: [...jobs], proofs: proofs === null ? null : [...proofs] } satisfies FlatBeat)
}

export function toBeat(text: string): Beat {
  const { jobs, proofs, ...rest } = JSON.parse(text) as FlatBeat
  return { ...rest, jobs: new Set(jobs), proofs: proofs === null ? null : new Set(proofs) }
}

// ---- Counts ----

export const noJobs = (): Record<JobState, number> =>
  Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>

const STATE_INDEX = Object.fromEntries(JOB_STATES.map((state, index) => [state, index])) as Record<JobState, number>
const DEAD_LETTER_INDEX = JOB_STATES.length
const COUNTED: readonly string[] = [...JOB_STATES, 'dead_letter']

/** By how much a transaction changes the counts: summed here, written once per queue and state. */
export class Tally {
  readonly #queues = new Map<string, number[]>()

  /** By how much the number of dead letters will change. */
  deadLetters = 0

  count(before: Job | null, after: Job | null): void {
    if (before?.state === after?.state && before?.deadLetter === after?.deadLetter) return
    if (before !== null) this.#add(before, -1)
    if (after !== null) this.#add(after, 1)
  }

  #add({ queue, state, deadLetter }: Job, n: number): void {
    let numbers = this.#queues.get(queue)
    if (numbers === undefined) this.#queues.set(queue, (numbers = COUNTED.map(() => 0)))
    numbers[STATE_INDEX[state]]! += n
    if (!deadLetter) return
    numbers[DEAD_LETTER_INDEX]! += n
    this.deadLetters += n
  }

  /** By how much the number of a queue's jobs in a state will change. */
  added(queue: string, state: JobState): number {
    return this.#queues.get(queue)?.[STATE_INDEX[state]] ?? 0
  }

  rows(): [counted: string, queue: string, n: number][] {
    const rows: [string, string, number][] = []
    for (const [queue, numbers] of this.#queues) {
      for (const [index, n] of numbers.entries()) if (n !== 0) rows.push([COUNTED[index] ?? '', queue, n])
    }
    return rows
  }
}
