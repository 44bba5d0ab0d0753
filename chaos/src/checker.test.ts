/** The checker is checked: a healthy life has no violation, and each planted fault is found under its own name. */
import { describe, expect, test } from 'vitest'
import { check, type PromiseName } from './checker.ts'
import type { Evidence, JobRecord, RunRecord, StoredEvent } from './evidence.ts'
import type { Call, Op } from './journal.ts'
import { storyOf } from './story.ts'

const ID = '01a1e000-0000-7000-8000-000000000001'
const OTHER = '01a1e000-0000-7000-8000-000000000002'
const WALL = Date.parse('2026-01-01T12:00:00.000Z')
const iso = (ms: number): string => new Date(WALL + ms).toISOString()

const call = (op: Op, who: string, sentAt: number, answeredAt: number | null, more: Partial<Call> = {}): Call => ({
  op,
  who,
  sentAt,
  sentWall: WALL + sentAt,
  answeredAt,
  status: answeredAt === null ? null : 200,
  request: {},
  answer: {},
  ...more,
})

const LIMITS = { timeout_ms: 1_000, soft_ms: 995, hard_ms: 995 }
const handOut = (lease: number, who: string, sentAt: number, checkpoint: string | null = null): Call =>
  call('fetch', who, sentAt, sentAt + 5, {
    answer: {
      jobs: [
        {
          id: ID,
          lease,
          attempt: lease,
          limits: LIMITS,
          checkpoint: checkpoint === null ? null : { state: { text: checkpoint } },
        },
      ],
    },
  })
const report = (op: 'ack' | 'nack', lease: number, who: string, sentAt: number, more: Partial<Call> = {}): Call =>
  call(op, who, sentAt, sentAt + 5, { request: { job_id: ID, x_lease: lease, result: { lease } }, ...more })
const saved = (text: string, sentAt: number): Call =>
  call('checkpoint', 'w1', sentAt, sentAt + 5, { request: { job_id: ID, state: { text } } })
const handler = (who: string, from: number, to: number | null): Call =>
  call('handler', who, from, to, { request: { id: OTHER } })

const JOB: JobRecord = {
  id: ID,
  queue: 'plain',
  state: 'completed',
  attempt: 2,
  max_attempts: 3,
  created_at: iso(0),
  completed_at: iso(1_650),
  total_timeout_ms: 5_000,
  result: { lease: 2 },
  errors: [{ type: 'timeout', timeout_kind: 'execution', limit_ms: 1_000, elapsed_ms: 1_001 }],
}
const SDK_JOB: JobRecord = { ...JOB, id: OTHER, queue: 'sdk', errors: [], result: { by: 'sdk-2#1' } }
const RUN: RunRecord = { phase: 'SUCCEEDED', startedAt: iso(0), endedAt: iso(900), deadlineAt: iso(6_000) }

const told = (subject: string, ...types: string[]): StoredEvent[] =>
  types.map((type) => ({ type, subject, time: iso(0) }))
const LIFE = ['job.enqueued', 'job.started', 'job.retrying', 'job.enqueued', 'job.started', 'job.completed']

/** One job that timed out once and was completed by another worker, one of the SDK that was handed on, and one run. */
function healthy(): Evidence {
  return {
    calls: [
      call('enqueue', 'producer-1', 0, 10, { status: 201, request: { id: ID } }),
      handOut(1, 'w1', 100),
      saved('half', 300),
      handOut(2, 'w2', 1_500, 'half'),
      report('ack', 1, 'w1', 1_550, { status: 409 }),
      report('ack', 2, 'w2', 1_640),
      call('enqueue', 'producer-1', 0, 10, { status: 201, request: { id: OTHER } }),
      handler('sdk-1', 100, 900),
      handler('sdk-2', 901, 1_200),
      call('start-run', 'producer-1', 0, 10, { status: 202, request: { key: 'k' }, answer: { runId: 'run-1' } }),
    ],
    jobs: new Map([
      [ID, JOB],
      [OTHER, SDK_JOB],
    ]),
    explained: new Map([
      [ID, { text: 'its life', spans: [{ kind: 'attempt', from: iso(100), to: iso(1_101), effective_ms: 1_000 }] }],
    ]),
    runs: new Map([['run-1', RUN]]),
    events: [...told(ID, ...LIFE), ...told(OTHER, ...LIFE)],
    outages: [],
    absences: [],
    workerTimeoutMs: 6_000,
    lateMs: 500,
  }
}

const promisesOf = (evidence: Evidence): PromiseName[] => [...new Set(check(evidence).map(({ promise }) => promise))]

const withCalls = (...more: Call[]): Evidence => {
  const evidence = healthy()
  return { ...evidence, calls: [...evidence.calls, ...more].sort((a, b) => a.sentAt - b.sentAt) }
}
const withoutHandOut = (): Call[] => healthy().calls.filter(({ op, who }) => !(op === 'fetch' && who === 'w2'))
const withJob = (job: JobRecord | null): Evidence => ({ ...healthy(), jobs: new Map([...healthy().jobs, [ID, job]]) })
const withRun = (run: RunRecord | null): Evidence => ({ ...healthy(), runs: new Map([['run-1', run]]) })

test('a healthy life keeps every promise', () => {
  expect(check(healthy())).toEqual([])
})

describe('a planted fault is found:', () => {
  const planted: [string, PromiseName, Evidence][] = [
    ['a dropped job', 'lost-job', withJob(null)],
    ['a result that was replaced', 'lost-result', withJob({ ...JOB, result: { lease: 1 } })],
    ['a result that was undone', 'lost-result', withJob({ ...JOB, state: 'discarded', discarded_at: iso(2_000) })],
    ['a doubled ack', 'two-results', withCalls(report('ack', 2, 'w2', 1_700))],
    ['a late ack that was accepted', 'stale-fence', withCalls(report('nack', 1, 'w1', 1_600))],
    ['a lease in two answers', 'handed-out-twice', withCalls(handOut(2, 'w3', 1_520, 'half'))],
    [
      'a lease while the one before was valid',
      'overlap',
      { ...healthy(), calls: [...withoutHandOut(), handOut(2, 'w2', 700, 'half')] },
    ],
    ['a lease after the result', 'overlap', withCalls(handOut(3, 'w3', 4_000, 'half'))],
    [
      'a checkpoint that was forgotten',
      'lost-checkpoint',
      { ...healthy(), calls: [...withoutHandOut(), handOut(2, 'w2', 1_500)] },
    ],
    ['a handler beside another', 'ran-beside', withCalls(handler('sdk-3', 1_000, 1_100))],
    ['a handler beside one that never ended', 'ran-beside', withCalls(handler('sdk-0', 50, null))],
    ['a moved total', 'late', withJob({ ...JOB, completed_at: iso(5_600) })],
    [
      'a moved attempt',
      'late',
      {
        ...healthy(),
        explained: new Map([
          [ID, { text: '', spans: [{ kind: 'attempt', from: iso(0), to: iso(1_600), effective_ms: 1_000 }] }],
        ]),
      },
    ],
    ['a job that never ends', 'late', withJob({ ...JOB, state: 'active' })],
    [
      'an ending before its limit',
      'early',
      withJob({ ...JOB, errors: [{ type: 'timeout', limit_ms: 1_000, elapsed_ms: 999 }] }),
    ],
    ['one attempt too many', 'too-many-attempts', withJob({ ...JOB, max_attempts: 1 })],
    ['a state without its event', 'events-disagree', withJob({ ...JOB, state: 'cancelled', cancelled_at: iso(1) })],
    [
      'an event out of order',
      'events-disagree',
      { ...healthy(), events: [...told(ID, ...LIFE, 'job.completed'), ...told(OTHER, ...LIFE)] },
    ],
    ['a dropped run', 'lost-run', withRun(null)],
    ['a run that does not end', 'lost-run', withRun({ ...RUN, phase: 'RUNNING', endedAt: null })],
    ['a run that ended late', 'lost-run', withRun({ ...RUN, endedAt: iso(6_501) })],
    [
      'a key that gave two runs',
      'lost-run',
      withCalls(call('start-run', 'p', 1, 2, { request: { key: 'k' }, answer: { runId: 'run-2' } })),
    ],
    ['an error of the server', 'wrong-answer', withCalls(call('cancel', 'p', 1, 2, { status: 500 }))],
  ]

  test.each(planted)('%s', (_, promise, evidence) => {
    expect(promisesOf(evidence)).toContain(promise)
  })
})

describe('no violation is reported for what can be explained:', () => {
  const harmless: [string, Evidence][] = [
    ['a repeated ack that says so', withCalls(report('ack', 2, 'w2', 1_700, { answer: { already: true } }))],
    ['an ack without an answer', withCalls({ ...report('ack', 2, 'w2', 1_600), answeredAt: null, status: null })],
    [
      'a lease right after the report of the one before',
      {
        ...healthy(),
        calls: [...withoutHandOut(), report('nack', 1, 'w1', 600), handOut(2, 'w2', 700, 'half')],
        jobs: new Map([[ID, { ...JOB, result: { lease: 2 } }]]),
        events: told(ID, ...LIFE),
      },
    ],
    [
      'a late end while no server was there',
      {
        ...withJob({ ...JOB, completed_at: iso(5_600) }),
        outages: [{ from: WALL + 4_800, to: WALL + 5_200 }],
      },
    ],
    [
      'an end that was predicted',
      withJob({
        ...JOB,
        errors: [{ type: 'total_timeout', limit_ms: 5_000, elapsed_ms: 1_000, details: { predicted: true } }],
      }),
    ],
    [
      'a handler beside one whose process was killed',
      {
        ...withCalls(handler('sdk-0', 50, null)),
        absences: [{ who: 'sdk-0', from: 90, to: Infinity }],
      },
    ],
    [
      'a handler beside one whose process stood still before it left',
      {
        ...withCalls(handler('sdk-0', 50, null)),
        absences: [{ who: 'sdk-0', from: 90, to: Infinity, onlyUnended: true }],
      },
    ],
    [
      'a handler beside one whose process stood still',
      {
        ...withCalls(handler('sdk-0', 50, 600)),
        absences: [{ who: 'sdk-0', from: 60, to: 550 }],
      },
    ],
  ]

  test.each(harmless)('%s', (_, evidence) => {
    expect(check(evidence)).toEqual([])
  })
})

test('the story of a violation shows what clients saw beside what the server says', () => {
  const evidence = withCalls(report('ack', 2, 'w2', 1_700))
  const [violation] = check(evidence)
  const faults = [`${iso(1_000)}  kill-server server 1`, `${iso(60_000)}  kill-server server 2`]
  const story = violation === undefined ? '' : storyOf(violation, evidence, faults)
  expect(story).toContain('two-results')
  expect(story).toContain('w1  fetch: lease 1')
  expect(story).toContain('w2  ack lease 2: 200')
  expect(story).toContain('its life')
  expect(story).toContain('kill-server server 1')
  expect(story).not.toContain('kill-server server 2')
})
