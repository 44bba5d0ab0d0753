import { expect, test } from 'vitest'
import { at, ms, NOON } from '../builders.suite.ts'
import { mayBeLate, placesOf, type DatedSpot, type Spot } from './line.ts'

const dated = (priority: number, seq: number, time = '12:01'): DatedSpot => ({ priority, seq, wakeAt: at(time) })
const spot = (priority: number, seq: number): Spot => ({ priority, seq })
const line = [spot(5, 9), spot(0, 1), spot(0, 2), spot(0, 3), spot(-1, 4)]
const places = (order: 'fifo' | 'edf', ...spots: DatedSpot[]): [seq: number, ahead: number][] =>
  placesOf(line, spots, order).map(({ spot: { seq }, ahead }) => [seq, ahead])

test('in the order in which they came, a job has those before it that are of higher priority or came earlier', () => {
  expect(places('fifo', dated(5, 9), dated(0, 3), dated(0, 1), dated(-1, 4))).toEqual([
    [9, 0],
    [3, 3],
    [1, 1],
    [4, 4],
  ])
})

test('a job behind the part of the line that was looked at has no place', () => {
  expect(places('fifo', dated(0, 7), dated(-1, 5))).toEqual([])
})

test('by deadline, those with one go before the others of their priority', () => {
  expect(places('edf', dated(5, 9), dated(0, 3), dated(0, 1), dated(-1, 4))).toEqual([
    [9, 0],
    [3, 1],
    [1, 2],
    [4, 4],
  ])
})

test('a job may be late whose deadline is not behind its expected start, with room for the attempt', () => {
  const third = (time: string) => ({ spot: dated(0, 1, time), ahead: 2 })
  expect(mayBeLate(third('12:00:03'), 1_000, ms(0), NOON)).toBe(true)
  expect(mayBeLate(third('12:00:04'), 1_000, ms(0), NOON)).toBe(false)
  expect(mayBeLate(third('12:00:04'), 1_000, ms(1_000), NOON)).toBe(true)
  expect(mayBeLate(third('13:00'), null, ms(0), NOON)).toBe(true)
})
