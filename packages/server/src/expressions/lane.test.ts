import { FakeClock } from '@curfew/core'
import { expect, test } from 'vitest'
import { Lane } from './lane.ts'

test('runs one at a time, in order, whatever becomes of each', async () => {
  const lane = new Lane(new FakeClock())
  const told: string[] = []
  const task = (name: string, fails = false) =>
    lane.run(async () => {
      told.push(`${name} begins`)
      await Promise.resolve()
      told.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const results = await Promise.allSettled([task('a'), task('b', true), task('c')])
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(told).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
  expect(await task('d')).toBe('d')
})

test('lets the others of the process have their turn after a while', async () => {
  const clock = new FakeClock()
  const turns: (() => void)[] = []
  const host = Object.assign(Object.create(clock) as FakeClock, {
    monotonicMs: () => clock.monotonicMs(),
    defer: (run: () => void) => turns.push(run),
  })
  const lane = new Lane(host)
  const told: string[] = []
  const task = (name: string, ms: number) =>
    lane.run(async () => {
      told.push(name)
      clock.advance(ms)
    })
  const all = Promise.all([task('short', 1), task('long', 20), task('waits', 1), task('follows', 1)])
  const settle = async () => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve()
  }
  await settle()
  expect(told).toEqual(['short', 'long'])
  while (turns.length > 0) turns.shift()?.()
  await settle()
  expect(told).toEqual(['short', 'long', 'waits', 'follows'])
  await all
})
