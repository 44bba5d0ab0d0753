/** Jobs, workers and documents with any value at all in their fields, for what must hold whatever comes. */
import fc from 'fast-check'
import { DIRECTIVES, instant, JOB_STATES, millis, minutes, type Doc, type Job, type Worker } from '@curfew/core'
import { admitted } from './builders.suite.ts'

/** Any sixteen-bit units: NUL, control characters and half surrogate pairs among them. */
const anyText = fc
  .array(
    fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 1, 0x22, 0x27, 0x5c, 0xd800, 0xdc00, 0xfeff)),
    { maxLength: 8 },
  )
  .map((units) => String.fromCharCode(...units))
/** What the door lets through as a name. */
const anyName = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
const anyInstant = fc.integer({ min: 0, max: 8_640_000_000_000 }).map(instant)
const anyMillis = fc.integer({ min: 0, max: 3_000_000_000 }).map(millis)
const anyNumber = fc.integer({ min: 0, max: 1_000_000_000 })
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value, { nil: null })
const anyJson = fc.oneof(
  fc.json(),
  anyText.map((text) => JSON.stringify({ text })),
)
const anySource = fc.constantFrom('publish', 'handler', 'type', 'queue', 'default', 'cap')
const anyLimit = fc.record({ ms: anyMillis, source: anySource })
const anyOnTimeout = fc.record({ mode: fc.constantFrom('retry', 'discard'), source: anySource })

/** All that may differ between jobs, but their ids and versions. */
export const FIELDS = ([...Object.keys(admitted().job), 'log'] as (keyof Job)[]).filter(
  (name) => !['id', 'version'].includes(name),
)

const anyLog = fc.record({
  lines: fc.array(
    fc.record(
      {
        at: anyInstant,
        attempt: anyNumber,
        message: anyText,
        fields: fc.dictionary(anyText, anyText, { noNullPrototype: true }),
        isCut: fc.constant(true as const),
      },
      { requiredKeys: ['at', 'attempt', 'message'] },
    ),
  ),
  dropped: anyNumber,
  lease: anyNumber,
  next: anyNumber,
})

/** Few jobs log. */
export function anyJob(): fc.Arbitrary<Job> {
  return fc.oneof(
    quietJob(),
    fc.tuple(quietJob(), anyLog).map(([job, log]) => ({ ...job, log })),
  )
}

function quietJob(): fc.Arbitrary<Job> {
  return fc.record({
    id: fc.uuid({ version: 7 }),
    type: fc.constantFrom('a', 'b.c'),
    queue: fc.constantFrom('default', 'other'),
    priority: fc.integer({ min: -100, max: 100 }),
    state: fc.constantFrom(...JOB_STATES),
    seq: fc.integer({ min: 1, max: 1_000_000 }),
    attempt: anyNumber,
    lease: anyNumber,
    interruptions: anyNumber,
    retry: fc.record({
      maxAttempts: anyNumber,
      initialMs: anyMillis,
      coefficient: fc.double({ min: 1, max: 1_000, noNaN: true }),
      maxMs: anyMillis,
      jitter: fc.boolean(),
      nonRetryable: fc.array(anyText),
      onExhaustion: fc.constantFrom('discard', 'dead_letter'),
      strategy: fc.constantFrom('constant', 'exponential'),
    }),
    limits: fc.record(
      {
        timeout: anyLimit,
        grace: anyLimit,
        heartbeat: anyLimit,
        visibility: maybe(anyLimit),
        total: maybe(anyLimit),
        ttl: maybe(anyLimit),
        onTimeout: anyOnTimeout,
        caps: fc.constantFrom({}, { timeout: minutes(1) }),
        kept: fc.record({ completedMs: anyMillis, deadLetterMs: anyMillis }, { requiredKeys: [] }),
      },
      { requiredKeys: ['timeout', 'grace', 'heartbeat', 'visibility', 'total', 'ttl', 'onTimeout', 'caps'] },
    ),
    ceiling: maybe(fc.record({ at: anyInstant, source: fc.constantFrom('parent', 'workflow') })),
    parent: maybe(fc.record({ kind: fc.constantFrom('job', 'journey', 'workflow'), id: anyText })),
    owner: maybe(
      fc.record({ kind: fc.constantFrom('workflow', 'cron', 'journey'), id: anyName, step: maybe(anyName) }),
    ),
    uniqueKey: maybe(anyName),
    limitKey: maybe(anyName),
    tenant: maybe(anyName),
    hold: maybe(
      fc
        .record({
          workerId: maybe(anyText),
          known: fc.boolean(),
          timeout: anyLimit,
          grace: anyLimit,
          heartbeat: maybe(anyLimit),
          visibility: anyLimit,
          onTimeout: anyOnTimeout,
          signAt: anyInstant,
          visibleFrom: anyInstant,
          visibleMs: anyMillis,
        })
        .chain((hold) =>
          fc.oneof(
            fc.constant(hold),
            fc.array(anyText).map((stack) => ({ ...hold, stack })),
            anyNumber.map((saved) => ({ ...hold, saved })),
            fc.tuple(fc.array(anyText), anyNumber).map(([stack, saved]) => ({ ...hold, stack, saved })),
          ),
        ),
    ),
    closedBy: maybe(fc.record({ workerId: maybe(anyText), attempt: anyNumber, lease: anyNumber })),
    createdAt: anyInstant,
    anchorAt: anyInstant,
    limitsSetAt: anyInstant,
    scheduledAt: maybe(anyInstant),
    expiresAt: maybe(anyInstant),
    enqueuedAt: maybe(anyInstant),
    activatedAt: maybe(anyInstant),
    startedAt: maybe(anyInstant),
    completedAt: maybe(anyInstant),
    cancelledAt: maybe(anyInstant),
    discardedAt: maybe(anyInstant),
    reenqueuedAt: maybe(anyInstant),
    nextRetryAt: maybe(anyInstant),
    retryDelayMs: maybe(anyMillis),
    resultTtlMs: maybe(anyMillis),
    purgeAt: maybe(anyInstant),
    error: maybe(anyJson),
    errors: fc.array(anyJson).map((errors) => errors.join()),
    errorCount: anyNumber,
    result: maybe(anyJson),
    progress: maybe(
      fc.record({
        value: maybe(fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0)),
        message: maybe(anyText),
        data: maybe(anyJson),
        updatedAt: anyInstant,
        toldAt: anyInstant,
      }),
    ),
    checkpointSeq: anyNumber,
    deadLetter: fc.boolean(),
    cancelReason: maybe(anyText),
    traceId: maybe(anyText),
    body: anyJson.map((json) => `"args":[${json}]`),
    given: anyJson.map((json) => `"x":${json}`),
    life: anyJson,
    wakeAt: maybe(anyInstant),
    version: fc.constant(0),
  })
}

/** Of a few kinds, under any name. */
export function anyDoc(): fc.Arbitrary<Doc> {
  return fc.record({
    kind: fc.constantFrom('cron', 'workflow', 'limiter'),
    id: anyName,
    version: fc.constant(1),
    wakeAt: maybe(anyInstant),
    body: anyJson,
  })
}

export function anyWorker(): fc.Arbitrary<Worker> {
  const ids = fc.array(anyText)
  return fc.record({
    id: anyText,
    hostname: maybe(anyText),
    pid: maybe(anyNumber),
    queues: ids,
    concurrency: maybe(anyNumber),
    labels: ids,
    startedAt: maybe(anyText),
    state: fc.constantFrom('running', 'quiet', 'terminate'),
    draining: fc.boolean(),
    directive: fc.constantFrom(...DIRECTIVES),
    registered: fc.boolean(),
    known: fc.boolean(),
    createdAt: anyInstant,
    lastSeenAt: anyInstant,
    lastBeatAt: maybe(anyInstant),
    activeJobs: anyNumber,
    beat: maybe(
      fc.record({
        at: anyInstant,
        jobs: ids.map((jobs) => new Set(jobs)),
        proofs: maybe(ids.map((jobs) => new Set(jobs))),
        leases: fc.dictionary(fc.uuid(), anyNumber, { noNullPrototype: true }),
        visibilityMs: maybe(anyMillis),
      }),
    ),
    beatSeq: maybe(anyNumber),
    handlers: fc.dictionary(fc.constantFrom('a', 'b.c'), fc.record({ timeout: anyMillis }), { noNullPrototype: true }),
    diedAt: maybe(anyInstant),
    wakeAt: maybe(anyInstant),
    version: fc.constant(0),
  })
}
