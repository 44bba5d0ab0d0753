import { after, FakeClock, millis } from '@curfew/core'
import { expect, test } from 'vitest'
import { SHORT_TURNS, Turns } from './turns.ts'

/** The event loop, turned by hand: what was deferred runs with the next turn. */
class Loop extends FakeClock {
  #deferred: (() => void)[] = []
  override defer(run: () => void): void {
    this.#deferred.push(run)
  }
  async turn(): Promise<void> {
    const deferred = this.#deferred
    this.#deferred = []
    for (const run of deferred) run()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Works in pieces of so many milliseconds. */
async function work(turns: Turns, loop: Loop, pieces: number, ms: number, done: string[], name: string): Promise<void> {
  for (let piece = 0; piece < pieces; piece += 1) {
    const turn = turns.next()
    if (turn !== null) await turn
    loop.advance(ms)
    done.push(name)
  }
}

test('work goes on within a turn, and waits for the next one after it', async () => {
  const loop = new Loop()
  const turns = new Turns(loop)
  const done: string[] = []
  void work(turns, loop, 20, 1, done, 'a')
  expect(done).toHaveLength(0)
  await loop.turn()
  expect(done).toHaveLength(2)
  await loop.turn()
  expect(done).toHaveLength(4)
})

test('however many wait, each turn takes on one of them', async () => {
  const loop = new Loop()
  const turns = new Turns(loop)
  const done: string[] = []
  for (const name of ['a', 'b', 'c']) void work(turns, loop, 8, 8, done, name)
  for (let turn = 0; turn < 6; turn += 1) {
    const before = loop.monotonicMs()
    await loop.turn()
    expect(loop.monotonicMs() - before).toBeLessThanOrEqual(8)
  }
  expect(done).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
})

test('who begins something that goes on by itself waits for the next turn, though this one is not over', async () => {
  const loop = new Loop()
  const turns = new Turns(loop)
  let begun = 0
  const begin = async (): Promise<void> => {
    for (; begun < 10; begun += 1) await turns.later()
  }
  void begin()
  await loop.turn()
  expect(begun).toBe(1)
  await loop.turn()
  expect(begun).toBe(2)
})

test('work that has had many turns rests as long as it worked, and short work does not wait for it', async () => {
  const loop = new Loop()
  const turns = new Turns(loop)
  const done: string[] = []
  const long = async (): Promise<void> => {
    for (let taken = 0; taken < 8; taken += 1) {
      await turns.later(taken)
      loop.advance(3)
      done.push(`long ${String(taken)}`)
    }
  }
  void long()
  for (let turn = 0; turn < 4; turn += 1) await loop.turn()
  expect(done.at(-1)).toBe('long 3')
  await loop.turn()
  expect(done.at(-1)).toBe('long 3')
  void work(turns, loop, 1, 0, done, 'short')
  await loop.turn()
  expect(done.at(-1)).toBe('short')
  loop.advance(3)
  await loop.turn()
  expect(done.at(-1)).toBe('long 4')
})

test('a rest that ends late is repeated, until the loop is free or it has rested long enough', async () => {
  for (const [lateMs, restsUntil] of [
    [0, 3],
    [3, 12],
    [20, 23],
  ] as const) {
    const loop = new Loop()
    const turns = new Turns(loop)
    const work = async (): Promise<void> => {
      await turns.later()
      loop.advance(3)
      await turns.later(SHORT_TURNS)
    }
    let isOver = false
    void work().then(() => (isOver = true))
    await loop.turn()
    const began = loop.monotonicMs()
    while (!isOver) {
      // Timers fire this much after they are due.
      loop.leapTo(after(loop.nextTimerAt() ?? loop.now(), millis(lateMs)))
      loop.fireNext()
      await loop.turn()
    }
    expect([lateMs, loop.monotonicMs() - began]).toEqual([lateMs, restsUntil])
  }
})

test('where the clock is turned by hand there are no rests', async () => {
  const loop = new Loop()
  const turns = new Turns(loop, false)
  const done: string[] = []
  const work = async (): Promise<void> => {
    for (let taken = 0; taken < 8; taken += 1) {
      await turns.later(taken)
      loop.advance(3)
      done.push(String(taken))
    }
  }
  void work()
  for (let turn = 0; turn < 8; turn += 1) await loop.turn()
  expect(done).toHaveLength(8)
})
