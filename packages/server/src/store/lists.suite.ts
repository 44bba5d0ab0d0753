/**
 * The part of the port's contract that is about lists of jobs by filter: what is listed is what `matches` says, newest
 * first, page by page, whatever way the store takes to it. `store.suite.ts` runs it with the rest.
 */
import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import {
  ANY_JOB,
  cancel,
  complete,
  endedAt,
  fail,
  JOB_STATES,
  matches,
  orderOf,
  retryByHand,
  type Instant,
  type Job,
  type JobFilter,
  type JobState,
} from '@curfew/core'
import { admitted, at, changes, changesOf, claimed, momentAt, saveIn, within } from './builders.suite.ts'
import { LOOK, NOTHING, type Store } from './store.ts'

const SLOW = { timeout: 60_000 }

/** Later than the timeout of any job here: an earlier report would be an ordinary failure. */
const DEADLINE_MS = 3_600_000

export function listsSuite(theStore: () => Store): void {
  const given = async (...jobs: Partial<Job>[]): Promise<Job[]> => {
    const all = jobs.map((job) => ({ ...admitted().job, ...job }))
    await saveIn(theStore(), changes({ jobs: all.map((after) => ({ before: null, after })) }))
    return within(theStore(), (tx) => tx.findJobs(all.map(({ id }) => id)))
  }
  const listed = async (filter: Partial<JobFilter>): Promise<string[]> =>
    idsOf((await theStore().jobs({ ...ANY_JOB, ...filter }, null, { limit: 100, offset: 0 })).jobs)
  const saved = async (...steps: { before: Job | null; job: Job | null }[]): Promise<Job[]> => {
    await saveIn(theStore(), changesOf(...steps.map((step) => ({ ...step, events: [] }))))
    return within(theStore(), (tx) => tx.findJobs(steps.flatMap(({ job }) => (job === null ? [] : [job.id]))))
  }

  describe('lists by filter', () => {
    test('are what the filter says of each job, in its order, by page and by cursor', SLOW, async () => {
      await fc.assert(
        fc.asyncProperty(someJobs, fc.array(someFilter, { minLength: 1, maxLength: 8 }), async (jobs, filters) => {
          await theStore().reset()
          const all = await given(...jobs)
          for (const asked of filters) {
            const filter = { ...ANY_JOB, ...asked }
            const meant = newestFirst(all, filter)
            expect(await theStore().countJobs(filter)).toEqual({ total: meant.length, isExact: true })
            expect(idsOf(await byCursor(theStore(), filter, 3))).toEqual(idsOf(meant))
            const page = await theStore().jobs(filter, null, { limit: 2, offset: 1 })
            expect(idsOf(page.jobs)).toEqual(idsOf(meant.slice(1, 3)))
          }
        }),
        { numRuns: 40 },
      )
    })

    test('find a job by what went wrong last, until it ends well or begins anew', async () => {
      const [job] = (await given({})) as [Job]
      const [held] = (await saved(claimed(job))) as [Job]
      expect(await listed({ errorType: 'boom' })).toEqual([])
      const [failed] = (await saved(fail(held, { type: 'boom', message: 'no', retryable: false }, momentAt(9)))) as [
        Job,
      ]
      expect(await listed({ errorType: 'boom' })).toEqual([job.id])
      expect(await listed({ errorType: 'boom', states: ['discarded'], queue: 'default' })).toEqual([job.id])
      expect(await listed({ errorType: 'boo' })).toEqual([])
      expect(await listed({ timeoutKind: 'execution' })).toEqual([])
      await saved(retryByHand(failed, failed, momentAt(10)))
      expect(await listed({ errorType: 'boom' })).toEqual([])
    })

    test('find a job by the limit it ran into', async () => {
      const [job] = (await given({})) as [Job]
      const [held] = (await saved(claimed(job))) as [Job]
      await saved(fail(held, { type: 'timeout', message: 'too long' }, momentAt(DEADLINE_MS)))
      expect(await listed({ timeoutKind: 'execution' })).toEqual([job.id])
      expect(await listed({ timeoutKind: 'total' })).toEqual([])
    })

    test('find a job by its worker while it is held, and when it is over', async () => {
      const [job, other] = (await given({}, {})) as [Job, Job]
      const [held, elsewhere] = (await saved(claimed(job, 'w\ud800'), claimed(other, 'x'))) as [Job, Job]
      expect(await listed({ worker: 'w\ud800' })).toEqual([job.id])
      await saved(complete(held, null, momentAt(9)), cancel(elsewhere, momentAt(9), { reason: 'request' }))
      expect(await listed({ worker: 'w\ud800' })).toEqual([job.id])
      expect(await listed({ worker: 'x' })).toEqual([other.id])
      expect(await listed({ worker: 'y' })).toEqual([])
    })

    test('name the worker of the last attempt, not of an earlier one', async () => {
      const [job] = (await given({})) as [Job]
      const [held] = (await saved(claimed(job, 'first'))) as [Job]
      const [back] = (await saved({ before: held, job: { ...held, state: 'available', hold: null } })) as [Job]
      expect(await listed({ worker: 'first' })).toEqual([job.id])
      await saved(claimed(back, null))
      expect(await listed({ worker: 'first' })).toEqual([])
    })

    test('find a job by its tags, until it is removed', async () => {
      const [job] = (await given(
        { body: '"args":["\\"tags\\"",{"tags":["c"]}],"meta":{"tags":["d"]},"tags":["a","b","a","\\u0000"]' },
        { body: '"args":["tags"]' },
      )) as [Job, Job]
      for (const tag of ['a', 'b', '\u0000']) expect(await listed({ tag })).toEqual([job.id])
      for (const tag of ['c', 'd', 'A']) expect(await listed({ tag })).toEqual([])
      await saveIn(theStore(), changes({ jobs: [{ before: job, after: null }] }))
      expect(await listed({ tag: 'a' })).toEqual([])
    })

    test('tell long names apart by their beginning', async () => {
      const long = 'é'.repeat(1_000)
      const [job] = (await given({
        body: `"args":[],"tags":["${long}"]`,
        error: JSON.stringify({ type: long }),
        state: 'retryable',
      })) as [Job]
      expect(await listed({ tag: long })).toEqual([job.id])
      expect(await listed({ errorType: long })).toEqual([job.id])
      expect(await listed({ errorType: long.slice(0, 100) })).toEqual([])
    })

    test('are the same in a copy', async () => {
      const [job, other] = (await given({ body: '"args":[],"tags":["a"]' }, {})) as [Job, Job]
      const [held, heldToo] = (await saved(claimed(job, 'w'), claimed(other, 'w'))) as [Job, Job]
      await saved(fail(held, { type: 'boom', message: 'no', retryable: false }, momentAt(9)))
      await saved(complete(heldToo, null, momentAt(9)))
      const copies = await theStore().jobsAfter(null, 9)
      await theStore().reset()
      await theStore().restore({ ...NOTHING, jobs: copies }, false)
      expect(await listed({ tag: 'a' })).toEqual([job.id])
      expect(await listed({ errorType: 'boom' })).toEqual([job.id])
      expect((await listed({ worker: 'w' })).toSorted()).toEqual([job.id, other.id].toSorted())
      expect(await listed({ ended: { after: at(8), before: at(10) } })).toHaveLength(2)
    })

    test('of more jobs than are looked at go on where a page ended', SLOW, async () => {
      const many = Array.from({ length: LOOK + 50 }, (_, n) => ({
        ...admitted({ queue: n === 0 ? 'rare' : 'common', type: n === 1 ? 'rare' : 'common' }, n).job,
        id: idAt(n),
        error: JSON.stringify({ type: n === 2 ? 'rare' : 'common' }),
        state: 'retryable' as const,
      }))
      for (let from = 0; from < many.length; from += 2_000) {
        await theStore().restore({ ...NOTHING, jobs: many.slice(from, from + 2_000) }, from + 2_000 < many.length)
      }
      const page = { limit: 10, offset: 0 }
      const none = await theStore().jobs({ ...ANY_JOB, type: 'rare' }, null, page)
      expect([none.jobs, none.next]).toEqual([[], idAt(50)])
      const found = await theStore().jobs({ ...ANY_JOB, type: 'rare' }, none.next, page)
      expect([idsOf(found.jobs), found.next]).toEqual([[idAt(1)], null])
      expect(await theStore().countJobs({ ...ANY_JOB, type: 'common' })).toEqual({ total: LOOK, isExact: false })
      const common = { ...ANY_JOB, errorType: 'common' }
      expect(await theStore().countJobs(common)).toEqual({ total: LOOK + 49, isExact: true })
      expect(await theStore().countJobs({ ...common, type: 'common' })).toEqual({ total: LOOK, isExact: false })
      expect(await theStore().countJobs({ ...ANY_JOB, errorType: 'rare' })).toEqual({ total: 1, isExact: true })
      expect(await theStore().countJobs({ ...ANY_JOB, queue: 'common' })).toEqual({ total: LOOK + 49, isExact: true })
      const created = { after: at(1), before: null }
      expect(await listed({ errorType: 'rare', type: 'common', created })).toEqual([idAt(2)])
      const newest = await theStore().jobs({ ...ANY_JOB, created, errorType: 'common' }, null, page)
      expect(idsOf(newest.jobs)).toEqual(
        many
          .slice(-10)
          .reverse()
          .map(({ id }) => id),
      )
      expect(newest.next).toBe(`${String(many.at(-10)?.createdAt)}.${String(many.at(-10)?.id)}`)
      expect(await byCursor(theStore(), { ...ANY_JOB, created, queue: 'rare' }, 10)).toEqual([])
    })
  })
}

const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id)

/** Ids that grow with the number. */
const idAt = (n: number): string => `01900000-0000-7000-8000-${String(n).padStart(12, '0')}`

async function byCursor(store: Store, filter: JobFilter, limit: number): Promise<Job[]> {
  const found: Job[] = []
  let next: string | null = null
  do {
    const page: { jobs: Job[]; next: string | null } = await store.jobs(filter, next, { limit, offset: 0 })
    found.push(...page.jobs)
    next = page.next
  } while (next !== null)
  return found
}

/** What the port says, said again without an index. */
function newestFirst(jobs: readonly Job[], filter: JobFilter): Job[] {
  const order = orderOf(filter)
  const key = (job: Job): number => (order === 'id' ? 0 : order === 'created' ? job.createdAt : (endedAt(job) ?? 0))
  return jobs.filter((job) => matches(filter, job)).toSorted((a, b) => key(b) - key(a) || (a.id < b.id ? 1 : -1))
}

const few = fc.integer({ min: 0, max: 4 })
const someTime = few.map((n) => at(n))
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value, { nil: null })

// Few different values, so that there are many ties.
const someJobs = fc.array(
  fc
    .record({
      queue: fc.constantFrom('a', 'b'),
      type: fc.constantFrom('x', 'y'),
      state: fc.constantFrom<JobState>(...JOB_STATES),
      tenant: fc.constantFrom(null, 'me', 'you'),
      priority: fc.constantFrom(0, 5),
      createdAt: someTime,
      enqueuedAt: maybe(someTime),
      endedAt: someTime,
      error: maybe(fc.constantFrom('{"type":"e"}', '{"type":"timeout","timeout_kind":"execution"}', '{"type":"f"}')),
      worker: maybe(fc.constantFrom('w1', 'w2')),
      tags: fc.constantFrom<readonly string[]>([], [], ['t1'], ['t1', 't2']),
    })
    .map(({ endedAt: ended, worker, tags, ...job }) => {
      const { hold } = claimed(admitted().job, worker).job
      return {
        ...job,
        deadLetter: job.state === 'discarded' && job.priority === 5,
        completedAt: job.state === 'completed' ? ended : null,
        cancelledAt: job.state === 'cancelled' ? ended : null,
        discardedAt: job.state === 'discarded' ? ended : null,
        body: tags.length === 0 ? '"args":[]' : `"args":[],"tags":${JSON.stringify(tags)}`,
        hold: job.state === 'active' ? hold : null,
        closedBy: worker === null || job.state === 'active' ? null : { workerId: worker, attempt: 1, lease: 1 },
      } satisfies Partial<Job>
    }),
  { maxLength: 25 },
)

const someBetween = fc.record({ after: maybe(someTime), before: maybe(someTime) }) as fc.Arbitrary<{
  after: Instant | null
  before: Instant | null
}>

const someFilter: fc.Arbitrary<Partial<JobFilter>> = fc.record(
  {
    queue: fc.constantFrom('a', 'b'),
    type: fc.constantFrom('x', 'y'),
    states: fc.uniqueArray(fc.constantFrom<JobState>(...JOB_STATES), { maxLength: 3 }),
    tenant: fc.constantFrom('me', 'none'),
    priority: fc.constant(5),
    errorType: fc.constantFrom('e', 'timeout'),
    timeoutKind: fc.constantFrom('execution', 'total'),
    tag: fc.constantFrom('t1', 't2', 't3'),
    worker: fc.constantFrom('w1', 'w2', 'w3'),
    deadOnly: fc.constant(true),
    enqueued: someBetween,
    created: someBetween,
    ended: someBetween,
  },
  { requiredKeys: [] },
)
