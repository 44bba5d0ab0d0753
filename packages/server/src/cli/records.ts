/**
 * The lines of an export. Each is a JSON object with one key that says what it is:
 *
 *   {"curfew":"export","format":1,…}   the header
 *   {"job":{…}} {"event":{…}} …        a record, field by field as the store's port has it
 *   {"end":true,"records":n}           the last line: without it the file is incomplete
 *
 * What a client sent stays the JSON text that it is, as a string, so nothing of it is ever written anew. A line that is
 * read back must have every field and no other, because what is imported is believed from then on: the checks below are
 * typed by the records, so that a field that is added there does not compile until it is added here. (A format that
 * differs gets the next number.)
 */
import { DIRECTIVES, isUuidV7, JOB_STATES, WORKER_STATES } from '@curfew/core'
import type {
  Beat,
  Checkpoint,
  Doc,
  Hold,
  Job,
  Limit,
  Limits,
  LimitSource,
  Notice,
  Outage,
  RetryPolicy,
} from '@curfew/core'
import type { AskedLimits, Caps, KeptFor, TypePolicy, Worker } from '@curfew/core'
import type { Batch, InboxEntry, Life, Queue, Refusal, Sizes, StoredEvent } from '../store/store.ts'

export const FORMAT = 2

export interface Header {
  readonly curfew: 'export'
  readonly format: number
  readonly version: string
  readonly exported_at: string
  readonly counts: Sizes
}

export interface End {
  readonly end: true
  readonly records: number
}

type FlatBeat = Omit<Beat, 'jobs' | 'proofs'> & { jobs: readonly string[]; proofs: readonly string[] | null }
type FlatWorker = Omit<Worker, 'beat'> & { beat: FlatBeat | null }
type FlatNotice = Notice & { workerId: string }

/** What stands in the file under each name. */
interface Flat {
  queue: Queue
  type: TypePolicy
  worker: FlatWorker
  notice: FlatNotice
  job: Job
  checkpoint: Checkpoint
  doc: Doc
  tombstone: { id: string }
  event: StoredEvent
  inbox: InboxEntry
  refused: InboxEntry & Refusal
  life: Life
}
type Kind = keyof Flat

// ---- Writing ----

export function recordLine<K extends Kind>(kind: K, record: Flat[K]): string {
  return `{"${kind}":${JSON.stringify(record)}}\n`
}

export function flatWorker(worker: Worker): FlatWorker {
  const { beat } = worker
  if (beat === null) return { ...worker, beat }
  const { jobs, proofs } = beat
  return { ...worker, beat: { ...beat, jobs: [...jobs], proofs: proofs === null ? null : [...proofs] } }
}

// ---- Reading ----

/** A batch that is being filled. */
export type Filling = { -readonly [K in keyof Omit<Batch, 'life'>]: Batch[K][number][] } & { life: Life | null }

export class BadRecord extends Error {}

export type Line =
  { readonly end: End } | { readonly addTo: (batch: Filling) => void; readonly sequence: number | null }

export function readHeader(text: string): Header {
  const value = parsed(text)
  if (!isObject(value) || value['curfew'] !== 'export') throw new BadRecord('not an export of Curfew')
  if (typeof value['format'] === 'number' && value['format'] > FORMAT) {
    throw new BadRecord(
      `it is written in format ${String(value['format'])} by Curfew ${JSON.stringify(value['version'])}; ` +
        `this program reads formats up to ${String(FORMAT)}`,
    )
  }
  const count = whole(0)
  fields<Header>({
    curfew: oneOf('export'),
    format: whole(1),
    version: string,
    exported_at: string,
    counts: fields<Sizes>({
      queues: count,
      types: count,
      workers: count,
      notices: count,
      jobs: count,
      checkpoints: count,
      docs: orAbsent(count),
      tombstones: count,
      events: count,
      inbox: orAbsent(count),
      refused: orAbsent(count),
    }),
  })(value, '')
  return value as unknown as Header
}

export function readLine(text: string): Line {
  const value = parsed(text)
  if (!isObject(value)) throw new BadRecord('a record must be a JSON object')
  if ('end' in value) {
    END(value, '')
    return { end: value as unknown as End }
  }
  const [kind, ...others] = Object.keys(value)
  if (kind === undefined || others.length > 0) throw new BadRecord('a record must have exactly one key, its kind')
  if (!Object.hasOwn(CHECKS, kind)) throw new BadRecord(`unknown kind of record ${JSON.stringify(kind)}`)
  return checked(kind as Kind, value[kind])
}

function checked(kind: Kind, value: unknown): Line {
  CHECKS[kind](value, kind)
  const record = { [kind]: value } as unknown as Flat
  return {
    addTo: (batch) => {
      ADD[kind](batch, record)
    },
    sequence: kind === 'event' ? record.event.sequence : null,
  }
}

const ADD: { readonly [K in Kind]: (batch: Filling, flat: Pick<Flat, K>) => void } = {
  queue: ({ queues }, { queue }) => queues.push(queue),
  type: ({ types }, { type }) => types.push(type),
  worker: ({ workers }, { worker }) =>
    workers.push({ ...worker, beat: worker.beat === null ? null : beatOf(worker.beat) }),
  notice: ({ notices }, { notice: { workerId, ...notice } }) => notices.push({ workerId, notice }),
  job: ({ jobs }, { job }) => jobs.push({ ...UNTIED, ...job }),
  checkpoint: ({ checkpoints }, { checkpoint }) => checkpoints.push(checkpoint),
  doc: ({ docs }, { doc }) => docs.push(doc),
  tombstone: ({ tombstones }, { tombstone }) => tombstones.push(tombstone.id),
  event: ({ events }, { event }) => events.push(event),
  inbox: (batch, { inbox }) => batch.inbox.push(inbox),
  refused: (batch, { refused }) => batch.refused.push(refused),
  life: (batch, { life }) => (batch.life = life),
}

/** What exports of format 1 do not know of a job: it had none of it. */
const UNTIED: Pick<Job, 'owner' | 'uniqueKey' | 'limitKey' | 'tenant'> = {
  owner: null,
  uniqueKey: null,
  limitKey: null,
  tenant: null,
}

function beatOf(beat: FlatBeat): Beat {
  return { ...beat, jobs: new Set(beat.jobs), proofs: beat.proofs === null ? null : new Set(beat.proofs) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BadRecord('not valid JSON')
  }
}

// ---- Checks ----

/** Throws BadRecord for a value that is not a T. */
type Check<T> = ((value: unknown, at: string) => void) & { readonly of?: T }
type Checks<T> = { readonly [K in keyof T]-?: Check<T[K]> }

function bad(at: string, expected: string): BadRecord {
  return new BadRecord(`${at} must be ${expected}`)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function passing<T>(expected: string, passes: (value: unknown) => boolean): Check<T> {
  return (value, at) => {
    if (!passes(value)) throw bad(at, expected)
  }
}

/** All of these fields and no other. What is not there is fine where the check allows it. */
function fields<T>(checks: Checks<T>): Check<T> {
  const known = Object.entries<Check<unknown>>(checks)
  return (value, at) => {
    if (!isObject(value)) throw bad(at, 'an object')
    const path = at === '' ? '' : `${at}.`
    for (const [name, check] of known) check(Object.hasOwn(value, name) ? value[name] : undefined, path + name)
    const unknown = Object.keys(value).find((name) => !Object.hasOwn(checks, name))
    if (unknown !== undefined)
      throw new BadRecord(`${at === '' ? 'it' : at} has an unknown field ${JSON.stringify(unknown)}`)
  }
}

function orNull<T>(check: Check<T>): Check<T | null> {
  return (value, at) => {
    if (value !== null) check(value, at)
  }
}

function orAbsent<T>(check: Check<T>): Check<T> {
  return (value, at) => {
    if (value !== undefined) check(value, at)
  }
}

function listOf<T>(check: Check<T>): Check<readonly T[]> {
  return (value, at) => {
    if (!Array.isArray(value)) throw bad(at, 'an array')
    for (const [index, entry] of value.entries()) check(entry, `${at}[${String(index)}]`)
  }
}

function mapOf<T>(check: Check<T>): Check<Readonly<Record<string, T>>> {
  return (value, at) => {
    if (!isObject(value)) throw bad(at, 'an object')
    for (const [name, entry] of Object.entries(value)) check(entry, `${at}[${JSON.stringify(name)}]`)
  }
}

const oneOf = <T extends string>(...choices: readonly T[]): Check<T> =>
  passing(`one of ${choices.join(', ')}`, (value) => choices.includes(value as T))

const whole = <T extends number>(min: number): Check<T> =>
  passing(min < 0 ? 'a whole number' : `a whole number of at least ${String(min)}`, (value) => {
    return Number.isSafeInteger(value) && Number(value) >= min
  })

/** Whether it becomes JSON between these. */
const jsonWithin = (open: string, close: string, expected: string): Check<string> =>
  passing(expected, (value) => {
    if (typeof value !== 'string') return false
    try {
      JSON.parse(open + value + close)
      return true
    } catch {
      return false
    }
  })

const string: Check<string> = passing('a string', (value) => typeof value === 'string')
const name: Check<string> = passing('a name', (value) => typeof value === 'string' && /^[\x21-\x7e]+$/.test(value))
const jobId: Check<string> = passing('a UUIDv7', (value) => typeof value === 'string' && isUuidV7(value))
const flag: Check<boolean> = passing('true or false', (value) => typeof value === 'boolean')
const number: Check<number> = passing('a number', (value) => typeof value === 'number')
const plain: Check<Readonly<Record<string, unknown>>> = passing('an object', isObject)
const at = whole<Job['createdAt']>(Number.MIN_SAFE_INTEGER)
const ms: Check<Limit['ms']> = passing('a number of milliseconds', (value) => typeof value === 'number')
const count = whole(0)
const json = jsonWithin('', '', 'JSON, as text')
const inObject = jsonWithin('{', '}', 'the inside of a JSON object, as text')
const inArray = jsonWithin('[', ']', 'the inside of a JSON array, as text')

const source = oneOf<LimitSource>(
  'publish',
  'handler',
  'type',
  'queue',
  'fetch',
  'default',
  'cap',
  'parent',
  'workflow',
)
const limit = fields<Limit>({ ms, source, asked: orAbsent(source), whole: orAbsent(ms) })
const mode = oneOf('retry', 'discard')
const onTimeout = fields<Limits['onTimeout']>({ mode, source })
const LENGTHS = {
  timeout: orAbsent(ms),
  total: orAbsent(ms),
  ttl: orAbsent(ms),
  grace: orAbsent(ms),
  heartbeat: orAbsent(ms),
  visibility: orAbsent(ms),
}
const caps = fields<Caps>(LENGTHS)
const kept = fields<KeptFor>({
  completedMs: orAbsent(ms),
  cancelledMs: orAbsent(ms),
  discardedMs: orAbsent(ms),
  deadLetterMs: orAbsent(ms),
})
const asked = fields<AskedLimits>({ ...LENGTHS, onTimeout: orAbsent(mode) })

const CHECKS: { readonly [K in Kind]: Check<Flat[K]> } = {
  queue: fields<Queue>({
    name,
    version: count,
    createdAt: at,
    pausedAt: orNull(at),
    drainingAt: orNull(at),
    config: plain,
  }),
  type: fields<TypePolicy>({ type: name, asked, caps, sent: plain, updatedAt: at }),
  worker: fields<FlatWorker>({
    id: string,
    hostname: orNull(string),
    pid: orNull(number),
    queues: listOf(string),
    concurrency: orNull(number),
    labels: listOf(string),
    startedAt: orNull(string),
    state: oneOf(...WORKER_STATES),
    draining: flag,
    directive: oneOf(...DIRECTIVES),
    registered: flag,
    known: flag,
    createdAt: at,
    lastSeenAt: at,
    lastBeatAt: orNull(at),
    activeJobs: number,
    beat: orNull(
      fields<FlatBeat>({
        at,
        jobs: listOf(string),
        proofs: orNull(listOf(string)),
        leases: mapOf(number),
        visibilityMs: orNull(ms),
      }),
    ),
    beatSeq: orNull(number),
    handlers: mapOf(asked),
    diedAt: orNull(at),
    wakeAt: orNull(at),
    version: count,
  }),
  notice: fields<FlatNotice>({
    workerId: string,
    jobId,
    lease: count,
    reason: oneOf('timeout', 'cancelled', 'lost'),
    at,
  }),
  job: fields<Job>({
    id: jobId,
    type: name,
    queue: name,
    priority: whole(Number.MIN_SAFE_INTEGER),
    state: oneOf(...JOB_STATES),
    seq: count,
    attempt: count,
    lease: count,
    interruptions: count,
    retry: fields<RetryPolicy>({
      maxAttempts: count,
      initialMs: ms,
      coefficient: number,
      maxMs: ms,
      jitter: flag,
      nonRetryable: listOf(string),
      onExhaustion: oneOf('discard', 'dead_letter'),
      strategy: oneOf('constant', 'linear', 'exponential', 'polynomial'),
    }),
    limits: fields<Limits>({
      timeout: limit,
      grace: limit,
      heartbeat: limit,
      visibility: orNull(limit),
      total: orNull(limit),
      ttl: orNull(limit),
      onTimeout,
      caps,
      kept: orAbsent(kept),
    }),
    ceiling: orNull(fields<NonNullable<Job['ceiling']>>({ at, source: oneOf('parent', 'workflow') })),
    parent: orNull(fields<NonNullable<Job['parent']>>({ kind: oneOf('job', 'journey', 'workflow'), id: string })),
    owner: orAbsent(
      orNull(
        fields<NonNullable<Job['owner']>>({
          kind: oneOf('workflow', 'cron', 'journey'),
          id: string,
          step: orNull(string),
        }),
      ),
    ),
    uniqueKey: orAbsent(orNull(string)),
    limitKey: orAbsent(orNull(string)),
    tenant: orAbsent(orNull(string)),
    hold: orNull(
      fields<Hold>({
        workerId: orNull(string),
        known: flag,
        timeout: limit,
        grace: limit,
        heartbeat: orNull(limit),
        visibility: limit,
        onTimeout,
        signAt: at,
        visibleFrom: at,
        visibleMs: ms,
        stack: orAbsent(listOf(string)),
      }),
    ),
    closedBy: orNull(fields<NonNullable<Job['closedBy']>>({ workerId: orNull(string), attempt: count, lease: count })),
    createdAt: at,
    anchorAt: at,
    limitsSetAt: at,
    scheduledAt: orNull(at),
    expiresAt: orNull(at),
    enqueuedAt: orNull(at),
    activatedAt: orNull(at),
    startedAt: orNull(at),
    completedAt: orNull(at),
    cancelledAt: orNull(at),
    discardedAt: orNull(at),
    reenqueuedAt: orNull(at),
    nextRetryAt: orNull(at),
    retryDelayMs: orNull(ms),
    resultTtlMs: orNull(ms),
    purgeAt: orNull(at),
    error: orNull(json),
    errors: inArray,
    errorCount: count,
    result: orNull(json),
    progress: orNull(
      fields<NonNullable<Job['progress']>>({
        value: orNull(number),
        message: orNull(string),
        data: orNull(json),
        updatedAt: at,
        toldAt: at,
      }),
    ),
    checkpointSeq: count,
    deadLetter: flag,
    cancelReason: orNull(string),
    traceId: orNull(string),
    body: inObject,
    given: inObject,
    life: inArray,
    wakeAt: orNull(at),
    version: count,
  }),
  checkpoint: fields<Checkpoint>({
    jobId,
    sequence: count,
    state: json,
    stepIndex: orNull(number),
    metadata: orNull(json),
    createdAt: at,
  }),
  doc: fields<Doc>({ kind: name, id: string, version: count, wakeAt: orNull(at), body: json }),
  tombstone: fields<{ id: string }>({ id: jobId }),
  event: fields<StoredEvent>({
    sequence: whole(1),
    type: name,
    at,
    subject: string,
    queue: orNull(name),
    jobType: orNull(name),
    data: json,
  }),
  inbox: fields<InboxEntry>({ id: string, body: string }),
  refused: fields<InboxEntry & Refusal>({ id: string, body: string, error: json, at }),
  life: fields<Life>({ aliveAt: orNull(at), outages: listOf(fields<Outage>({ from: at, to: at })) }),
}

const END = fields<End>({ end: passing('true', (value) => value === true), records: count })
