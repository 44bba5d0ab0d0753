import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  at,
  boom,
  cancelledJob,
  completedJob,
  discardedJob,
  JOB_ID,
  moment,
  NOON,
  published,
  retryableJob,
  settingsWith,
} from '../../builders.suite.ts'
import { minutes, seconds, type Instant } from '../../time/clock.ts'
import { readEnqueue } from './enqueue.ts'
import { ROW_ALONE } from '../../job/liveness.ts'
import type { Hold, Job } from '../../job/job.ts'
import { admit } from '../../job/lifecycle/admit.ts'
import { complete, fail, interrupt, reportProgress } from '../../job/lifecycle/report.ts'
import { traits } from '../../job/lifecycle/world.suite.ts'
import { HandedOutLimits, limitsView, renderHandedOut, renderJob, renderProgress } from './render.ts'

type Envelope = Record<string, unknown>
const rendered = (job: Job): Envelope => JSON.parse(renderJob(job)) as Envelope
const handedOut = (job: Job, answeredAt: Instant, withoutSeconds = false): Envelope =>
  JSON.parse(
    renderHandedOut(job, { limits: new HandedOutLimits(answeredAt), checkpoint: null, withoutSeconds }),
  ) as Envelope

/** Enqueues what a client sent, as the engine does. */
function enqueued(source: string): Job {
  const { scheduled, expires, asked, inheritDeadline: _, id, ...rest } = readEnqueue(source, JSON.parse(source), NOON)
  return admit(
    {
      ...rest,
      id: id ?? JOB_ID,
      limits: published(asked),
      ceiling: null,
      owner: null,
      uniqueKey: null,
      limitKey: null,
      tenant: null,
      scheduledAt: scheduled?.at ?? null,
      expiresAt: expires?.at ?? null,
    },
    moment(NOON),
  ).job
}

describe('the limits of a job', () => {
  const ceiling = { at: at('14:00'), source: 'parent' } as const

  test('are shown alike whether or not the same record was shown before', () => {
    fc.assert(
      fc.property(traits, (job) => {
        const jobs = [aJob(job), aJob({ ...job, createdAt: at('13:00') }), aJob({ ...job, ceiling })]
        for (const shown of jobs) {
          expect(shown.limits).toBe(jobs[0]?.limits)
          expect(rendered(shown)['x_limits']).toEqual(JSON.parse(JSON.stringify(limitsView(shown))))
        }
      }),
    )
  })
})

describe('the limits of jobs that are handed out together', () => {
  const limit = { ms: seconds(77), source: 'type' } as const
  const full: Job = activeJob({
    timeoutMs: 60_000,
    graceMs: 5_000,
    heartbeatMs: 20_000,
    visibilityMs: 90_000,
    totalMs: 3_600_000,
    ttlMs: 600_000,
    ceiling: { at: at('12:30'), source: 'parent' },
  })
  const plain = activeJob()
  const own: Job = { ...full, ceiling: null }
  const holdOf = ({ hold }: Job): Hold => {
    if (hold === null) throw new Error('an active job has a hold')
    return hold
  }
  const held = (job: Job, changes: Partial<Hold>): Job => ({ ...job, hold: { ...holdOf(job), ...changes } })
  const limited = (job: Job, changes: Partial<Job['limits']>): Job => ({
    ...job,
    limits: { ...job.limits, ...changes },
  })

  const CHANGES: readonly (readonly [string, (job: Job) => Job])[] = [
    ['timeout', (job) => held(job, { timeout: { ...holdOf(job).timeout, ms: limit.ms } })],
    ['source of the timeout', (job) => held(job, { timeout: { ...holdOf(job).timeout, source: 'handler' } })],
    ['grace', (job) => held(job, { grace: { ...holdOf(job).grace, ms: limit.ms } })],
    ['source of the grace', (job) => held(job, { grace: { ...holdOf(job).grace, source: 'handler' } })],
    ['heartbeat timeout', (job) => held(job, { heartbeat: limit })],
    ['source of the heartbeat timeout', (job) => held(job, { heartbeat: { ms: seconds(20), source: 'handler' } })],
    ['missing heartbeat timeout', (job) => held(job, { heartbeat: null })],
    ['visibility', (job) => held(job, { visibility: { ...holdOf(job).visibility, ms: limit.ms } })],
    ['source of the visibility', (job) => held(job, { visibility: { ...holdOf(job).visibility, source: 'fetch' } })],
    ['mode on timeout', (job) => held(job, { onTimeout: { ...holdOf(job).onTimeout, mode: 'discard' } })],
    ['source of the mode on timeout', (job) => held(job, { onTimeout: { ...holdOf(job).onTimeout, source: 'type' } })],
    ['last visible moment', (job) => held(job, { visibleFrom: at('12:00:07') })],
    ['length of the visibility clock', (job) => held(job, { visibleMs: limit.ms })],
    ['start', (job) => ({ ...job, startedAt: at('12:00:07') })],
    ['total', (job) => limited(job, { total: limit })],
    ['ttl', (job) => limited(job, { ttl: limit })],
    ['ceiling', (job) => ({ ...job, ceiling: { at: at('12:20'), source: 'parent' } })],
    ['source of the ceiling', (job) => ({ ...job, ceiling: { at: at('12:30'), source: 'workflow' } })],
  ]
  /** Of these a job without a heartbeat timeout, a total or a ttl shows nothing. */
  const ONLY_FULL: readonly (readonly [string, (job: Job) => Job])[] = [
    ['last sign of life', (job) => held(job, { signAt: at('12:00:07') })],
    ['source of the ttl', (job) => limited(job, { ttl: { ms: seconds(600), source: 'queue' } })],
    ['missing ttl', (job) => limited(job, { ttl: null })],
    ['missing ceiling', () => own],
    ['anchor', (job) => ({ ...job, anchorAt: at('11:59') })],
    ['attempt that the ttl was for', (job) => ({ ...job, attempt: 0 })],
    // A grace that was set is kept free of the total in full, a default one is not.
    [
      'speaker for a grace under a cap',
      (job) => held(job, { grace: { ms: holdOf(job).grace.ms, source: 'cap', asked: 'default' } }),
    ],
  ]
  const cases = [
    ...CHANGES.flatMap(([name, change]) => [
      [name, plain, change(plain)] as const,
      [`${name} beside every other limit`, full, change(full)] as const,
    ]),
    ...ONLY_FULL.map(([name, change]) => [name, full, change(full)] as const),
    // The ceiling comes before the total and would hide it.
    ['source of the total', own, limited(own, { total: { ms: minutes(60), source: 'queue' } })] as const,
    ['missing total', own, limited(own, { total: null })] as const,
  ]

  test.each(cases)('differ where only this differs: %s', (_, first, second) => {
    const limits = new HandedOutLimits(at('12:00:01'))
    const [alone, other] = [first, second].map((job) => JSON.stringify(limitsView(job, ROW_ALONE, at('12:00:01'))))
    expect(other).not.toBe(alone)
    expect([first, second, first].map((job) => limits.textOf(job))).toEqual([alone, other, alone])
  })

  test.each([
    ['no limit of their own', plain],
    ['every limit', full],
  ])('are written once when they are equal, with %s', (_, job) => {
    const limits = new HandedOutLimits(NOON)
    const text = limits.textOf(job)
    const unread = { ...holdOf(job), workerId: 'w2' }
    let reads = 0
    const twin: Job = {
      ...job,
      id: '019539a4-b68c-7def-8000-1a2b3c4d5e70',
      hold: Object.defineProperty(unread, 'timeout', {
        get: () => {
          reads += 1
          return holdOf(job).timeout
        },
      }),
    }
    expect(limits.textOf(twin)).toBe(text)
    // Compared once, not put together anew.
    expect(reads).toBe(1)
  })

  test('count from the moment of their own answer', () => {
    const [first, second] = [new HandedOutLimits(NOON), new HandedOutLimits(at('12:00:01'))].map(
      (limits) => JSON.parse(limits.textOf(plain)) as { soft_ms: number },
    )
    expect((first?.soft_ms ?? 0) - (second?.soft_ms ?? 0)).toBe(1_000)
  })
})

describe('a job as clients see it', () => {
  test('carries what every OJS client reads, and leaves out what is not there', () => {
    const view = rendered(enqueued('{"type":"email.send","args":["a"],"x_mine":1,"timeout":5}'))
    expect(view).toMatchObject({
      specversion: '1.0',
      id: JOB_ID,
      type: 'email.send',
      queue: 'default',
      args: ['a'],
      meta: {},
      priority: 0,
      state: 'available',
      attempt: 0,
      max_attempts: 3,
      created_at: '2026-01-01T12:00:00.000Z',
      enqueued_at: '2026-01-01T12:00:00.000Z',
      timeout: 5,
      x_mine: 1,
    })
    const absent =
      'started_at completed_at discarded_at cancelled_at error errors result retry_delay_ms next_retry_at worker_id progress x_interruptions x_purge_at x_lease activated_at re_enqueued_at'
    for (const key of absent.split(' ')) expect(view).not.toHaveProperty(key)
  })

  test('never shows a default as if the client had sent it', () => {
    const view = rendered(activeJob())
    for (const key of [
      'timeout',
      'timeout_ms',
      'grace_period',
      'heartbeat_timeout',
      'visibility_timeout',
      'total_timeout',
    ]) {
      expect(view).not.toHaveProperty(key)
    }
  })

  test('shows the worker while active, the error while it retries, the history after', () => {
    expect(rendered(activeJob())).toMatchObject({
      worker_id: 'w1',
      started_at: '2026-01-01T12:00:00.000Z',
      state: 'active',
    })
    const waiting = rendered(retryableJob())
    expect(waiting).toMatchObject({
      error: { type: 'boom' },
      errors: [{ type: 'boom', attempt: 1 }],
      retry_delay_ms: 1000,
      next_retry_at: '2026-01-01T12:00:02.000Z',
    })
    expect(waiting).not.toHaveProperty('worker_id')
  })

  test('shows each ending with its own stamp and its purge time, and only where it belongs', () => {
    const [completed, cancelled, discarded] = [completedJob(), cancelledJob(), discardedJob()].map(rendered)
    expect(completed).toMatchObject({ completed_at: expect.any(String), x_purge_at: expect.any(String) })
    expect(cancelled).toMatchObject({ cancelled_at: expect.any(String), x_purge_at: expect.any(String) })
    expect(cancelled).not.toHaveProperty('completed_at')
    expect(discarded).toMatchObject({
      discarded_at: expect.any(String),
      completed_at: expect.any(String),
      x_purge_at: expect.any(String),
    })
  })

  test('shows result, progress and interruptions', () => {
    const job = reportProgress(interrupted(), { value: 0.5, message: 'half', data: '{"n":1.0}' }, NOON).job
    expect(renderJob(job)).toContain('"progress":0.5,"progress_message":"half","progress_data":{"n":1.0}')
    expect(rendered(job)).toMatchObject({ x_interruptions: 1 })
    expect(renderJob(complete(job, '{"big":12345678901234567890}', moment(NOON)).job)).toContain(
      '"result":{"big":12345678901234567890}',
    )
  })

  test('lays in what the caller adds', () => {
    expect(JSON.parse(renderJob(aJob(), undefined, '"previous_state":"active"'))).toMatchObject({
      previous_state: 'active',
    })
  })
})

function interrupted(): Job {
  const back = interrupt(activeJob(), null, moment(NOON)).job
  return { ...activeJob(), interruptions: back.interruptions }
}

describe('x_limits', () => {
  test('before a claim leave out what depends on the worker, unless it was set', () => {
    expect(limitsView(aJob())).toEqual({
      timeout_ms: 1_800_000,
      on_timeout: 'retry',
      sources: { timeout: 'default', on_timeout: 'default' },
    })
    expect(
      limitsView(
        aJob({ graceMs: 0, heartbeatMs: 2, visibilityMs: 3, totalMs: 60_000, ttlMs: 5_000, onTimeout: 'discard' }),
      ),
    ).toEqual({
      timeout_ms: 60_000,
      grace_ms: 0,
      heartbeat_timeout_ms: 2,
      visibility_ms: 3,
      total_ms: 60_000,
      enqueue_ttl_ms: 5_000,
      on_timeout: 'discard',
      total_deadline: '2026-01-01T12:01:00.000Z',
      ttl_deadline: '2026-01-01T12:00:05.000Z',
      sources: {
        timeout: 'default',
        grace: 'publish',
        heartbeat: 'publish',
        visibility: 'publish',
        total: 'publish',
        ttl: 'publish',
        on_timeout: 'publish',
      },
    })
  })

  test('before a claim leave out a default that a cap held down: it still depends on the worker', () => {
    const limits = published({}, settingsWith({ grace: seconds(10), heartbeat: seconds(45) }))
    const view = limitsView(aJob({ limits }))
    expect(view).not.toHaveProperty('grace_ms')
    expect(view).not.toHaveProperty('heartbeat_timeout_ms')
  })

  test('while active show the terms of the attempt and its deadlines', () => {
    expect(
      limitsView(activeJob({ timeoutMs: 30_000, handler: { grace: seconds(5) }, fetchVisibilityMs: 20_000 })),
    ).toEqual({
      timeout_ms: 30_000,
      grace_ms: 5_000,
      heartbeat_timeout_ms: 60_000,
      visibility_ms: 20_000,
      on_timeout: 'retry',
      soft_deadline: '2026-01-01T12:00:30.000Z',
      soft_limit: 'timeout',
      hard_deadline: '2026-01-01T12:00:35.000Z',
      visibility_deadline: '2026-01-01T12:00:20.000Z',
      sources: {
        timeout: 'publish',
        grace: 'handler',
        heartbeat: 'default',
        visibility: 'fetch',
        on_timeout: 'default',
      },
    })
  })

  test('leave out a heartbeat that is not enforced', () => {
    expect(limitsView(activeJob({ known: false }))).not.toHaveProperty('heartbeat_timeout_ms')
  })

  test('after the attempt show no deadline of an attempt any more', () => {
    for (const job of [retryableJob({ totalMs: 60_000 }), completedJob({ totalMs: 60_000, ttlMs: 5_000 })]) {
      const view = limitsView(job)
      for (const key of [
        'soft_deadline',
        'soft_limit',
        'hard_deadline',
        'visibility_deadline',
        'ttl_deadline',
        'soft_ms',
      ])
        expect(view).not.toHaveProperty(key)
      expect(view.total_deadline).toBe('2026-01-01T12:01:00.000Z')
    }
    expect(limitsView(cancelledJob({ ttlMs: 60_000 }))).not.toHaveProperty('ttl_deadline')
  })

  test("show a parent's clamp in the total and the deadlines, never in timeout_ms", () => {
    const view = limitsView(
      activeJob({ timeoutMs: 600_000, graceMs: 0, ceiling: { at: at('12:05'), source: 'parent' } }),
    )
    expect(view).toMatchObject({
      timeout_ms: 600_000,
      total_ms: minutes(5),
      total_deadline: '2026-01-01T12:05:00.000Z',
      soft_deadline: '2026-01-01T12:05:00.000Z',
      soft_limit: 'total',
      hard_deadline: '2026-01-01T12:05:00.000Z',
      sources: { timeout: 'publish', total: 'parent' },
    })
  })
})

describe('a job as it is handed to a worker', () => {
  const job = activeJob({
    timeoutMs: 30_000,
    graceMs: 5_000,
    heartbeatMs: 10_000,
    given: '"timeout":30,"grace_period":5',
  })

  test('carries its lease and the lengths from this very answer', () => {
    const view = handedOut(job, at('12:00:02'))
    expect(view).toMatchObject({ x_lease: 1, attempt: 1, state: 'active', worker_id: 'w1' })
    expect(view['x_limits']).toMatchObject({ soft_ms: 28_000, hard_ms: 33_000, beat_ms: 8_000 })
  })

  test('sends no beat_ms where no heartbeat is enforced', () => {
    expect(handedOut(activeJob({ known: false }), NOON)['x_limits']).not.toHaveProperty('beat_ms')
  })

  test('speaks milliseconds to an SDK that would take timeout for them', () => {
    const view = handedOut(job, NOON, true)
    expect(view).toMatchObject({ timeout_ms: 30_000, grace_period: 5 })
    expect(view).not.toHaveProperty('timeout')
    expect(handedOut(job, NOON)).toMatchObject({ timeout: 30 })
    expect(handedOut(activeJob({ given: '"timeout_ms":1500' }), NOON, true)).toMatchObject({ timeout_ms: 1500 })
    expect(handedOut(activeJob(), NOON, true)).not.toHaveProperty('timeout_ms')
  })

  test('brings what the attempt before had saved', () => {
    const checkpoint = {
      jobId: JOB_ID,
      sequence: 3,
      state: '{"frame":4.0}',
      stepIndex: null,
      metadata: null,
      createdAt: NOON,
    }
    const text = renderHandedOut(job, { limits: new HandedOutLimits(NOON), checkpoint, withoutSeconds: false })
    expect(text).toContain('"last_checkpoint":{"frame":4.0},"checkpoint":{"state":{"frame":4.0},"sequence":3}')
  })

  test('shows the delay its last failure had cost', () => {
    const failed = fail(activeJob(), boom, moment(at('12:00:01'))).job
    expect(rendered({ ...activeJob(), retryDelayMs: failed.retryDelayMs })).toMatchObject({ retry_delay_ms: 1000 })
  })
})

test('progress is readable before any was reported, and after', () => {
  expect(JSON.parse(renderProgress(aJob()))).toEqual({
    job_id: JOB_ID,
    state: 'available',
    progress: null,
    message: null,
    data: null,
    updated_at: null,
  })
  const { job } = reportProgress(activeJob(), { value: 0.5, message: null, data: '[1]' }, NOON)
  expect(JSON.parse(renderProgress(job))).toEqual({
    job_id: JOB_ID,
    state: 'active',
    progress: 0.5,
    message: null,
    data: [1],
    updated_at: '2026-01-01T12:00:00.000Z',
  })
})

describe('envelope → job → envelope', () => {
  const odd = fc.constantFrom('\0', '\ud800', '\udfff', '"', '\\', '\u2028', '__proto__', 'é')
  const string = fc.oneof(
    fc.string(),
    fc.array(odd).map((parts) => parts.join('')),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constant(null),
      fc.boolean(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.bigInt({ min: 0n, max: 10n ** 30n }),
      string,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.oneof(string, fc.constant('__proto__')), tie('value'), { maxKeys: 3 }),
    ),
  }))
  // Numbers of any size, as text: JSON.stringify knows no bigint, so they are marked and unmarked.
  const write = (json: unknown, space?: number): string =>
    JSON.stringify(
      json,
      (_, entry: unknown) => (typeof entry === 'bigint' ? `#${String(entry)}#` : entry),
      space,
    ).replaceAll(/"#(\d+)#"/g, '$1')
  const name = fc.oneof(
    string.map((text) => `x_${text}`),
    fc.constantFrom('__proto__', 'constructor', 'version', 'toString'),
  )

  test('args, meta and unknown fields come back byte for byte', () => {
    fc.assert(
      fc.property(
        fc.array(value),
        fc.dictionary(string, value),
        fc.dictionary(
          name,
          value.filter((entry) => entry !== null),
        ),
        fc.constantFrom(undefined, 2),
        (args, meta, unknown, space) => {
          const extra = Object.entries(unknown).map(([key, entry]) => `,${JSON.stringify(key)}:${write(entry, space)}`)
          const source = `{"type":"a","args":${write(args, space)},"meta":${write(meta, space)}${extra.join('')}}`
          const job = enqueued(source)
          const text = renderJob(job)
          expect(text).toContain(
            `"args":${write(args, space)},"meta":${write(meta, space)}${extra.join('')},"priority"`,
          )
          expect(JSON.parse(text)).toMatchObject({ id: JOB_ID, state: 'available', attempt: 0 })
        },
      ),
    )
  })

  test('what a job shows, sent once more, is the same job', () => {
    const limits = fc.record(
      {
        timeout: fc.integer({ min: 1, max: 1e6 }),
        grace_period_ms: fc.nat(1e6),
        enqueue_ttl: fc.integer({ min: 1, max: 1e6 }),
        x_on_timeout: fc.constantFrom('retry', 'discard'),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.array(value), limits, fc.integer({ min: -100, max: 100 }), (args, given, priority) => {
        const first = enqueued(
          `{"type":"a","args":${write(args)},${JSON.stringify({ ...given, priority, retry: { max_attempts: 4 } }).slice(1)}`,
        )
        expect(enqueued(renderJob(first))).toEqual(first)
      }),
    )
  })

  test('every state renders as one valid JSON object with its own state', () => {
    for (const job of [
      aJob(),
      aJob({ pending: true }),
      activeJob(),
      retryableJob(),
      completedJob(),
      cancelledJob(),
      discardedJob(),
    ]) {
      expect(rendered(job)).toMatchObject({ state: job.state, x_limits: { timeout_ms: expect.any(Number) } })
    }
  })
})
