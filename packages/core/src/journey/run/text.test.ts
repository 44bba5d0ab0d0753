/** The text of wide runs: what it says, how much of it is made again, and how much is made at once. */
import { describe, expect, test, vi } from 'vitest'
import type { Frame, Rest, Run } from './run.ts'
import { aFrame, aRun, aVisit, later, openStep } from './runs.suite.ts'
import { isLong, RunText } from './text.ts'

const over: Rest = {
  kind: 'over',
  end: {
    phase: 'SUCCEEDED',
    terminationKind: 'Success',
    output: { a: ['ü', null] },
    error: null,
    terminatedAtState: 'z',
  },
}

const forked = (frames: readonly Frame[]): Rest => ({
  kind: 'forked',
  frames: Object.fromEntries(frames.map((frame, n) => [`b"${String(n)}`, frame])),
})

const branches = (count: number, rest: Rest = openStep): Frame[] =>
  Array.from({ length: count }, (_, n) => ({ ...aFrame('hold', 'wait', rest, `fan/b${String(n)}`), visit: n + 2 }))

const wide = (frames: readonly Frame[], more: Partial<Run> = {}): Run =>
  aRun({ root: aFrame('fan', 'parallel', forked(frames)), ...more })

const made = (text: RunText, run: Run): { text: string; turns: number } => {
  const work = text.of(run)
  for (let turns = 0; ; turns += 1) {
    const step = work.next()
    if (step.done === true) return { text: step.value, turns }
  }
}

/** How many values are made into text. */
function counted(act: () => void): number {
  const spy = vi.spyOn(JSON, 'stringify')
  try {
    act()
    return spy.mock.calls.length
  } finally {
    spy.mockRestore()
  }
}

const trailOf = (first: number, count: number): Run['trail'] =>
  Array.from({ length: count }, (_, n) => ({ ...aVisit('hold', 'wait', 0, null), visit: first + n }))

describe('the text of a run says what JSON.stringify says', () => {
  const nested = branches(100).map((frame, n) =>
    n % 3 === 0 ? { ...frame, rest: forked(branches(3, over)) } : n % 3 === 1 ? frame : inside(frame),
  )
  function inside(frame: Frame): Frame {
    return {
      ...frame,
      rest: { kind: 'inside', frame: aFrame('ship', 'timer', { kind: 'sleeping', until: later(1), next: 'x' }) },
    }
  }

  test.each([
    ['with many branches', wide(branches(1_000))],
    ['with a trail', wide(branches(40, over), { trail: trailOf(7, 500) })],
    ['with branches that have branches and subjourneys', wide(nested)],
    ['that does not fork', aRun({ trail: trailOf(1, 3) })],
    ['without a trail', wide([], { trail: [] })],
  ])('%s', (_, run) => {
    const text = new RunText()
    for (let again = 0; again < 2; again += 1)
      expect(JSON.parse(made(text, run).text)).toEqual(JSON.parse(JSON.stringify(run)))
  })

  test('after any of its branches has changed, and its trail', () => {
    const text = new RunText()
    let run = wide(nested, { trail: trailOf(0, 300) })
    for (let step = 0; step < 30; step += 1) {
      const { rest } = run.root
      if (rest.kind !== 'forked') throw new Error('it is forked')
      const name = `b"${String((step * 37) % 100)}`
      const frames = { ...rest.frames, [name]: aFrame('z', 'succeed', over, `now ${String(step)}`) }
      run = { ...run, root: { ...run.root, rest: { kind: 'forked', frames } }, trail: trailOf(step * 5, 300) }
      expect(JSON.parse(made(text, run).text)).toEqual(JSON.parse(JSON.stringify(run)))
    }
  })
})

describe('what has not changed is not made again', () => {
  test('one branch of thousands', () => {
    const text = new RunText()
    const frames = branches(5_000)
    made(text, wide(frames))
    const [first, ...others] = frames
    if (first === undefined) throw new Error('there are branches')
    const next = wide([{ ...first, state: 'next' }, ...others])
    expect(counted(() => made(text, next))).toBeLessThan(100)
  })

  test('one branch within a branch', () => {
    const text = new RunText()
    const [left, right] = [branches(2_000), branches(2_000)]
    const both = (some: readonly Frame[]): Run =>
      wide([some, right].map((inner, n) => aFrame('inner', 'parallel', forked(inner), `fan/${String(n)}`)))
    made(text, both(left))
    expect(counted(() => made(text, both([...left.slice(0, -1), ...branches(1, over)])))).toBeLessThan(100)
  })

  test('a trail of which the oldest are forgotten', () => {
    const text = new RunText()
    const trail = trailOf(0, 5_000)
    made(text, aRun({ trail }))
    expect(counted(() => made(text, aRun({ trail: trail.slice(5) })))).toBeLessThan(100)
  })
})

test('others have their turn after each 64 KiB, and after one long entry', () => {
  const { text, turns } = made(new RunText(), wide(branches(5_000)))
  expect(turns).toBeGreaterThanOrEqual(Math.floor(text.length / 70_000))
  const context = { long: 'x'.repeat(100_000) }
  const long = wide(branches(20).map((frame) => ({ ...frame, context })))
  expect(made(new RunText(), long).turns).toBe(20)
})

test('runs are long by their branches or by their trail', () => {
  expect(isLong(wide(branches(10)))).toBe(false)
  expect(isLong(wide(branches(300)))).toBe(true)
  expect(isLong(aRun({ trail: trailOf(0, 300) }))).toBe(true)
})
