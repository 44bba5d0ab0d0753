import { describe, expect, test } from 'vitest'
import { instant, millis } from '../../time/clock.ts'
import { explainRun } from './explain.ts'
import { journeyEnded } from '../../wire/journey-events.ts'
import { expireRun } from '../run/life.ts'
import { anEnd, anEndedRun, aRun, aVisit, later } from '../run/runs.suite.ts'

const trail = [
  aVisit('load', 'task', 0, 1_200, { limitMs: millis(2_000) }),
  aVisit('found', 'choice', 1_200, 1_200),
  aVisit('approve', 'wait', 1_200, 9_200, { limitMs: millis(8_000), note: 'timeout' }),
  aVisit('finish', 'succeed', 9_200, 9_200),
]

test('tells for each state how long the run was there, and how much of the budget that was', () => {
  const { states, budget, ending, phase } = explainRun(anEndedRun('Success', 9_200, { trail }), later(60_000))
  expect(phase).toBe('SUCCEEDED')
  expect(budget).toMatchObject({ limitMs: 30_000, limitedBy: 'spec', spentMs: 9_200, remainingMs: 0 })
  expect(states.map(({ state, durationMs, share }) => [state, durationMs, share])).toEqual([
    ['load', 1_200, 0.04],
    ['found', 0, 0],
    ['approve', 8_000, 0.2667],
    ['finish', 0, 0],
  ])
  expect(states[2]).toMatchObject({ startsAfterMs: 1_200, limitMs: 8_000, note: 'timeout' })
  expect(ending).toEqual({
    terminationKind: 'Success',
    terminatedAtState: 'finish',
    endedAt: new Date(later(9_200)).toISOString(),
    marginMs: 20_800,
  })
})

test('a state that the deadline cut off lasted until then', () => {
  const end = anEnd('Timeout', { terminatedAtState: 'approve' })
  const run = anEndedRun('Timeout', 30_003, {
    end,
    overshootMs: millis(3),
    trail: [...trail.slice(0, 2), aVisit('approve', 'wait', 1_200, null)],
  })
  const { states, ending, text } = explainRun(run, later(99_000))
  expect(states.at(-1)).toMatchObject({ durationMs: 28_803, to: new Date(later(30_003)).toISOString() })
  expect(ending).toMatchObject({ terminationKind: 'Timeout', overshootMs: 3, error: { code: 'ORDER_TIMEOUT' } })
  expect(ending).not.toHaveProperty('marginMs')
  expect(text).toContain(
    'ended in approve: ORDER_TIMEOUT: screening took longer than 30 s. Its 30 s were up, decided 3 ms after the deadline.',
  )
})

test('a state that the run left less time than its limit is shown with that length, and what clamped it', () => {
  const end = anEnd('Timeout', { terminatedAtState: 'call' })
  const limits = [millis(500), millis(10_000)] as const
  const run = anEndedRun('Timeout', 1_002, {
    limitMs: millis(1_000),
    end,
    trail: [
      aVisit('ask', 'wait', 0, 9, { limitMs: limits[0] }),
      aVisit('call', 'task', 9, null, { limitMs: limits[1] }),
    ],
  })
  const { states, text } = explainRun(run, later(99_000))
  expect(states[0]).toMatchObject({ limitMs: 500, effectiveMs: 500 })
  expect(states[0]).not.toHaveProperty('clampedBy')
  expect(states[1]).toMatchObject({ limitMs: 10_000, effectiveMs: 991, clampedBy: 'maxDurationSec' })
  expect(text).toMatch(/ask \(wait\) took 9 ms, 0\.9 % of the budget, of at most 500 ms$/m)
  expect(text).toMatch(
    /call \(task\) took 993 ms, 99\.3 % of the budget, of at most 991 ms: shortened from 10 s by the deadline of the run$/m,
  )
})

test('a limit that is just what the run has left is not clamped', () => {
  const trail = [aVisit('call', 'task', 20_000, null, { limitMs: millis(10_000) })]
  const { states } = explainRun(aRun({ trail }), later(21_000))
  expect(states[0]).toMatchObject({ limitMs: 10_000, effectiveMs: 10_000 })
  expect(states[0]).not.toHaveProperty('clampedBy')
})

test('a deadline that passed while the server was down is shown with its downtime', () => {
  const run = aRun({ trail: [aVisit('load', 'task', 0, null)] })
  const ended = expireRun(run, later(37_005), instant(later(37_000)))?.run
  if (ended === undefined) throw new Error('the run goes on')
  const { ending, text } = explainRun(ended, later(99_000))
  expect(ending).toMatchObject({ overshootMs: 5, lateMs: 7_005, downtimeMs: 7_000 })
  expect(text).toContain(
    'decided 7005 ms after the deadline: the server was down for 7000 ms of them, and 5 ms are charged to the decision.',
  )
  expect(journeyEnded(ended).data).toMatchObject({ overshoot_ms: 5, late_ms: 7_005, downtime_ms: 7_000 })
})

test('tells what happens next if no signal arrives', () => {
  const at = (ms: number): string => new Date(later(ms)).toISOString()
  const root = aRun().root
  const next = (rest: typeof root.rest): unknown => explainRun(aRun({ root: { ...root, rest } }), later(0)).next
  const deadline = {
    kind: 'deadline',
    at: at(30_000),
    limit: 'maxDurationSec',
    limitMs: 30_000,
    source: 'spec',
    then: 'fail',
  }
  expect(next({ kind: 'ready', by: null })).toEqual(deadline)
  expect(next({ kind: 'sleeping', until: later(5_000), next: 'b' })).toMatchObject({
    kind: 'timer',
    at: at(5_000),
    then: 'b',
  })
  const waiting = { kind: 'waiting', onTimeout: 'late', next: 'b' } as const
  expect(next({ ...waiting, timeoutAt: later(8_000) })).toMatchObject({ kind: 'wait', at: at(8_000), then: 'late' })
  expect(next({ ...waiting, timeoutAt: later(30_000) })).toEqual(deadline)
  expect(explainRun(anEndedRun('Success', 9_200), later(60_000)).next).toBeNull()
  expect(explainRun(aRun(), later(0)).text).toContain(
    `next automatic transition at ${at(30_000)}: the run fails by its deadline`,
  )
})

test('of a run that goes on it tells what is left', () => {
  const run = aRun({ trail: [aVisit('load', 'task', 0, 1_000), aVisit('approve', 'wait', 1_000, null)] })
  const explained = explainRun(run, later(11_000))
  expect(explained.budget).toMatchObject({ spentMs: 11_000, remainingMs: 19_000 })
  expect(explained.states.at(-1)).not.toHaveProperty('to')
  expect(explained).not.toHaveProperty('ending')
  expect(explained.text).toContain('approve (wait) there for 10 s, 33.3 % of the budget')
  expect(explained.text).toContain('Running; 19 s are left of 30 s; next automatic transition at ')
})

test('says it all once more in words, and where most of the time went', () => {
  expect(explainRun(anEndedRun('Success', 9_200, { trail }), later(60_000)).text.split('\n')).toEqual([
    expect.stringMatching(/started, may take 30 s \(as its definition says\), until .*:30\.000Z$/) as string,
    expect.stringMatching(/load \(task\) took 1\.2 s, 4 % of the budget, of at most 2 s$/) as string,
    expect.stringMatching(/found \(choice\) took 0 ms, 0 % of the budget$/) as string,
    expect.stringMatching(/approve \(wait\) took 8 s, 26\.7 % of the budget, of at most 8 s \(timeout\)$/) as string,
    expect.stringMatching(/finish \(succeed\) took 0 ms, 0 % of the budget$/) as string,
    expect.stringMatching(/ended in finish\. It succeeded 20\.8 s before the deadline\.$/) as string,
    'Most of the time went into approve: 8 s.',
  ])
})

test('says how many states are not kept any more', () => {
  const explained = explainRun(aRun({ trail: trail.slice(2), omitted: 412 }), later(10_000))
  expect(explained.omitted).toBe(412)
  expect(explained.text).toContain('412 states before these are not kept')
})

describe('a run that ended by a fault', () => {
  const reason = 'more than 10000 states were entered without waiting for anything.\nA loop needs a timer.'
  const end = anEnd('RuntimeError', { error: { code: 'RUNTIME_TOO_MANY_STEPS', reason }, terminatedAtState: 'a' })
  const loop = [aVisit('a', 'transform', 8_750, 8_751), aVisit('b', 'transform', 8_751, 8_770)]

  test('tells the reason on the line of its ending', () => {
    const { text } = explainRun(anEndedRun('RuntimeError', 8_770, { end, trail: loop }), later(60_000))
    expect(text).toContain(
      'ended in a: RUNTIME_TOO_MANY_STEPS: more than 10000 states were entered without waiting for anything. A loop needs a timer. It ended 21.23 s before the deadline.',
    )
    expect(text).not.toContain('Something went wrong')
  })

  test.each([
    ['states are not kept', { trail: trail, omitted: 9_801 }],
    ['the states that are shown took less than half of the time', { trail: loop, omitted: 0 }],
  ])('does not say where most of the time went when %s', (_, more) => {
    const { text } = explainRun(anEndedRun('RuntimeError', 9_200, { end, ...more }), later(60_000))
    expect(text).not.toContain('Most of the time')
  })
})
