import { expect, test } from 'vitest'
import { instant } from '@curfew/core'
import { RecentSigns } from './recent-signs.ts'

const at = (ms: number) => instant(1_000_000 + ms)
const UP = at(0)

test('a beat is kept for the jobs it vouches for, and for no other', () => {
  const signs = new RecentSigns()
  signs.beat({ at: at(1), jobs: new Set(['a', 'b']), proofs: null })
  signs.beat({ at: at(2), jobs: new Set(['a', 'b']), proofs: new Set(['b']) })
  expect(signs.of('a', UP).beats).toEqual([at(1)])
  expect(signs.of('b', UP).beats).toEqual([at(1), at(2)])
  expect(signs.of('c', UP)).toEqual({ since: UP, beats: [], late: [] })
})

test('of one job the last 64 beats are shown', () => {
  const signs = new RecentSigns()
  for (let ms = 1; ms <= 100; ms += 1) signs.beat({ at: at(ms), jobs: new Set(['a']), proofs: null })
  const { beats } = signs.of('a', UP)
  expect([beats.length, beats[0], beats.at(-1)]).toEqual([64, at(37), at(100)])
})

test('what is kept is bounded by the jobs that beats list, and says from where on it is known', () => {
  const signs = new RecentSigns()
  const jobs = new Set(Array.from({ length: 1_000 }, (_, index) => `job-${String(index)}`))
  signs.beat({ at: at(1), jobs: new Set(['first']), proofs: null })
  for (let ms = 2; ms <= 200; ms += 1) signs.beat({ at: at(ms), jobs, proofs: null })
  expect(signs.of('first', UP).beats).toEqual([])
  expect(signs.of('first', UP).since).toBeGreaterThan(UP)
  expect(signs.of('job-0', UP).beats).toHaveLength(64)
})

test('a result that came too late is kept with its verb and worker', () => {
  const signs = new RecentSigns()
  const late = { at: at(5), verb: 'ack', workerId: 'w' }
  signs.late('a', late)
  expect([signs.of('a', UP).late, signs.of('b', UP).late]).toEqual([[late], []])
})
