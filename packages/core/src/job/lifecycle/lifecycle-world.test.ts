/** Whatever happens to a job, in any order and at any time: see `world.suite.ts` for what must hold after every step. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { errorsOf, type JobTraits } from '../../builders.suite.ts'
import { iso } from '../../time/clock.ts'
import { explain } from '../explain.ts'
import { isTerminal } from '../job.ts'
import { renderJob } from '../../wire/job/render.ts'
import { deed, traits, World, type Deed } from './world.suite.ts'

const deeds = fc.array(deed, { minLength: 10, maxLength: 40, size: 'max' })

function live(born: JobTraits, done: readonly Deed[]): World {
  const world = new World(born)
  for (const each of done) world.run(each)
  return world
}

test('a job goes only legal ways, fenced and bounded, and its events tell the same story as its row', () => {
  fc.assert(
    fc.property(traits, deeds, (born, done) => void live(born, done)),
    { numRuns: 400 },
  )
})

test('a job left to itself comes to an end or waits for a worker, and once ended it stays as it is', () => {
  fc.assert(
    fc.property(traits, deeds, (born, done) => {
      const world = live(born, done)
      for (let steps = 0; world.job !== null && world.job.wakeAt !== null && !isTerminal(world.job.state); steps += 1) {
        if (steps > 50) throw new Error(`never comes to rest: ${world.job.state}`)
        world.pass(Math.max(0, world.job.wakeAt - world.now), true)
      }
      const ended = world.job
      if (ended === null || !isTerminal(ended.state)) return
      world.pass(86_400_000, true)
      expect(world.job).toEqual(ended)
    }),
    { numRuns: 100 },
  )
})

test('the spans of any life follow one another without overlap, and any job renders as JSON', () => {
  fc.assert(
    fc.property(traits, deeds, (born, done) => {
      const { job, life, now } = live(born, done)
      if (job === null) return
      const { spans, endings, text } = explain(job, life, now)
      let reached = iso(job.createdAt)
      for (const { from, to } of spans) {
        if (from < reached || (to ?? from) < from) throw new Error(`overlap at ${from}: ${JSON.stringify(spans)}`)
        reached = to ?? '9999'
      }
      if ((spans.at(-1)?.from ?? '') > iso(now)) throw new Error(`begins in the future: ${JSON.stringify(spans)}`)
      expect(spans.at(-1)?.to === undefined).toBe(!isTerminal(job.state))
      expect(spans.filter(({ kind }) => kind === 'attempt')).toHaveLength(job.lease)
      const last = job.state === 'completed' || job.state === 'cancelled' ? 1 : 0
      expect(endings).toHaveLength(errorsOf(job).length + last)
      expect(text.split('\n').at(-1)).toContain(job.state)
      expect(JSON.parse(renderJob(job, life))).toMatchObject({ state: job.state, attempt: job.attempt })
    }),
    { numRuns: 200 },
  )
})
