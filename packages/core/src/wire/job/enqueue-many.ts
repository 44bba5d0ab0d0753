/** Requests that enqueue many jobs: a batch is refused as a whole, a bulk entry by entry. */
import { badField, OjsError } from '../../errors.ts'
import type { Instant } from '../../time/clock.ts'
import { TOP_ALIASES } from './enqueue-names.ts'
import { readEnqueue, type EnqueueRequest } from './enqueue.ts'
import { fewMembersOf } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { JOB_FIELDS } from './job-shapes.ts'
import { elementsOf, type Member } from '../json/json-text.ts'
import { refuseNearMisses } from '../names/near-miss-words.ts'
import { nearMissesAmong, vocabulary, type NearMiss } from '../names/near-miss.ts'
import { EnqueueMemory } from './enqueue-terms.ts'
import { ReadShare } from '../read-share.ts'
import { anyObject, anything, list } from '../shape.ts'

export const MAX_IN_BATCH = 10_000
export const MAX_IN_BULK = 1_000

/** A request that brings many jobs, as it was read. */
export interface Many<Entry> {
  readonly entries: readonly Entry[]
  /** Fields beside `jobs` that belong into the jobs, or are nearly those of the request. */
  readonly nearMisses: readonly NearMiss[]
}

/** The entries of a batch, each as its own request. A refusal names the entry. Yields between pieces of work. */
export function* readBatch(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): Generator<void, Many<EnqueueRequest>> {
  const entries = list(anything(), 1, MAX_IN_BATCH).read(jobsIn(fields), 'jobs')
  return yield* readEach(source, entries, { now, tenant, strict }, (error, index) => {
    throw atIndex(error, index)
  })
}

/** The entries of a bulk enqueue, each by itself: a request, or why it is none. Yields between pieces of work. */
export function* readBulk(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): Generator<void, Many<EnqueueRequest | OjsError>> {
  const entries = list(anything(), 1, Infinity).read(jobsIn(fields), 'jobs')
  if (entries.length > MAX_IN_BULK) {
    throw new OjsError(
      'payload_too_large',
      `${String(entries.length)} jobs are more than the ${String(MAX_IN_BULK)} that one request may bring.`,
      {
        details: { field: 'jobs', max_batch_size: MAX_IN_BULK },
        hint: 'Send them in several requests.',
      },
    )
  }
  return yield* readEach(source, entries, { now, tenant, strict }, (error) => {
    if (error instanceof OjsError) return error
    throw error
  })
}

function* readEach<Refused>(
  source: string,
  entries: readonly unknown[],
  { now, tenant, strict }: { readonly now: Instant; readonly tenant: string | null; readonly strict: boolean },
  refused: (error: unknown, index: number) => Refused,
): Generator<void, Many<EnqueueRequest | Refused>> {
  const members = fewMembersOf(source, '')
  const nearMisses = nearMissesBesideJobs(members)
  if (strict) refuseNearMisses(nearMisses)
  const texts = elementsOf(members.get('jobs')?.value ?? '[]')
  const read: (EnqueueRequest | Refused)[] = []
  const share = new ReadShare()
  const memory = new EnqueueMemory()
  for (const [index, entry] of entries.entries()) {
    const text = texts[index] ?? '{}'
    if (share.isUsedUp()) yield
    share.add(text.length)
    try {
      const fields = anyObject().read(entry, `jobs[${String(index)}]`)
      read.push(readEnqueue(text, fields, now, tenant, strict, memory))
    } catch (error) {
      read.push(refused(error, index))
    }
  }
  return { entries: read, nearMisses }
}

/** The fields of a request that brings many jobs. */
const MANY_FIELDS = ['jobs', 'atomicity', 'idempotency_key']
/** Beside `jobs`, a field of a job has no effect: each job has its own. */
const MANY_NAMES = vocabulary(MANY_FIELDS, {
  atomic: 'atomicity',
  ...Object.fromEntries(
    [
      ...Object.keys(JOB_FIELDS).map((name) => [name, name] as const),
      ...Object.entries(TOP_ALIASES),
      ...['defaults', 'default_options', 'job_defaults'].map((name) => [name, 'options'] as const),
    ].map(([name, meant]) => [name, `jobs[].${meant}`] as const),
  ),
})

function nearMissesBesideJobs(members: ReadonlyMap<string, Member>): readonly NearMiss[] {
  const unknown: string[] = []
  for (const { key, value } of members.values()) if (!MANY_FIELDS.includes(key) && value !== 'null') unknown.push(key)
  return nearMissesAmong(unknown, MANY_NAMES)
}

function jobsIn(fields: unknown): unknown {
  const { jobs } = anyObject().read(fields, '')
  if (!isGiven(jobs)) throw badField('jobs', 'jobs is required: an array of enqueue requests.')
  return jobs
}

export function atIndex(error: unknown, index: number, list = 'jobs'): unknown {
  if (!(error instanceof OjsError)) return error
  const at = `${list}[${String(index)}]`
  // A refusal of the whole entry has named it already.
  return new OjsError(error.code, error.details['field'] === at ? error.message : `${at}: ${error.message}`, {
    details: { ...error.details, index },
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  })
}
