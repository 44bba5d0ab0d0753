/**
 * The part of the port's contract that is about finding jobs by more than their names: in an order, of an owner, by
 * fingerprint, by limiter; and about counting them. `store.suite.ts` runs it with the rest.
 */
import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import {
  instant,
  isTerminal,
  JOB_STATES,
  retryByHand,
  seededRandom,
  TAIL,
  uuidV7,
  type Job,
  type JobState,
} from '@curfew/core'
import { admitted, at, changes, changesOf, claimable, claimed, momentAt, saveIn, within } from './builders.suite.ts'
import type { Claimable, Store } from './store.ts'

const SLOW = { timeout: 60_000 }

export function findsSuite(theStore: () => Store): void {
  /** Saves jobs that are as they are told to be, and gives them as they are stored, in that order. */
  const given = async (...jobs: Partial<Job>[]): Promise<Job[]> => {
    const all = jobs.map((job) => ({ ...admitted().job, ...job }))
    await saveIn(theStore(), changes({ jobs: all.map((after) => ({ before: null, after })) }))
    return within(theStore(), (tx) => tx.findJobs(all.map(({ id }) => id)))
  }
  const one = async (job: Partial<Job>): Promise<Job> => (await given(job))[0] as Job
  const change = (before: Job, after: Partial<Job> | null): Promise<unknown> =>
    saveIn(theStore(), changes({ jobs: [{ before, after: after === null ? null : { ...before, ...after } }] }))

  describe('jobs to hand out', () => {
    test('by deadline: those that have one before those that have none, within a priority', async () => {
      const ids = idsOf(
        await given(
          { wakeAt: null },
          { wakeAt: at(900) },
          { wakeAt: at(100) },
          { wakeAt: null, priority: 5 },
          { wakeAt: at(800), priority: 5 },
          { wakeAt: at(100) },
          { wakeAt: at(1), priority: -5 },
        ),
      )
      const [none, late, first, highNone, high, second, low] = ids
      const order = [high, highNone, first, second, late, none, low]
      for (const limit of [1, 2, 3, 4, 5, 6, 7, 8]) {
        const asked = claimable('default', limit, { order: 'edf' })
        expect(idsOf(await within(theStore(), (tx) => tx.findClaimable(asked)))).toEqual(order.slice(0, limit))
      }
      expect(idsOf(await theStore().deadlined('default', 3))).toEqual([high, first, second])
      expect(idsOf(await theStore().deadlined('default', 9))).toEqual([high, first, second, late, low])
    })

    test('of one tenant, and not of limiters that have had their turn', async () => {
      const [plain, limited, mine, both] = idsOf(
        await given({}, { limitKey: 'api' }, { tenant: 'me' }, { tenant: 'me', limitKey: 'api' }, { tenant: 'ME' }),
      )
      const ask = async (given: Partial<Claimable>) => {
        const found = await within(theStore(), (tx) => tx.findClaimable(claimable('default', 4, given)))
        return idsOf(found)
      }
      for (const order of ['fifo', 'edf'] as const) {
        expect(await ask({ order })).toEqual([plain, limited, mine, both])
        expect(await ask({ order, tenant: 'me' })).toEqual([mine, both])
        expect(await ask({ order, tenant: 'me', without: ['api', 'other'] })).toEqual([mine])
        expect((await ask({ order, without: ['api'] })).slice(0, 2)).toEqual([plain, mine])
        expect(await ask({ order, tenant: 'unknown' })).toEqual([])
      }
    })

    test('are those that a plain sort would give, whatever is asked', SLOW, async () => {
      await fc.assert(
        fc.asyncProperty(someJobs, fc.array(someAsked, { minLength: 1, maxLength: 6 }), async (jobs, questions) => {
          await theStore().reset()
          const all = await given(...jobs)
          for (const asked of questions) {
            const found = await within(theStore(), (tx) => tx.findClaimable(asked))
            expect(idsOf(found)).toEqual(idsOf(plainly(all, asked)))
            const { queue, limit } = asked
            const oldest = await within(theStore(), (tx) => tx.findOldestAvailable(queue, limit))
            const waiting = all.filter((job) => job.queue === queue && job.state === 'available')
            expect(idsOf(oldest)).toEqual(idsOf(waiting.toSorted((a, b) => a.seq - b.seq).slice(0, limit)))
            const dated = plainly(all, { ...asked, order: 'edf', tenant: null, without: [], limit: 99 })
            const deadlined = dated.filter(({ wakeAt }) => wakeAt !== null).slice(0, limit)
            expect(idsOf(await theStore().deadlined(queue, limit))).toEqual(idsOf(deadlined))
          }
        }),
      )
    })

    test('follow a job from state to state', async () => {
      const job = await one({ wakeAt: at(5), tenant: 'me', limitKey: 'api' })
      const asked = (['fifo', 'edf'] as const).map((order) => claimable('default', 9, { order, tenant: 'me' }))
      const found = () =>
        within(theStore(), async (tx) => {
          const lists = [await tx.findOldestAvailable('default', 9)]
          for (const each of asked) lists.push(await tx.findClaimable(each))
          return lists.map(idsOf)
        })
      expect(await found()).toEqual([[job.id], [job.id], [job.id]])
      await change(job, { state: 'active' })
      expect(await found()).toEqual([[], [], []])
      await change({ ...job, state: 'active', version: 2 }, { state: 'available', seq: TAIL, wakeAt: null })
      expect(await found()).toEqual([[job.id], [job.id], [job.id]])
      expect(await theStore().deadlined('default', 9)).toEqual([])
    })
  })

  describe('jobs of an owner', () => {
    const owner = { kind: 'workflow', id: 'w', step: null } as const
    const owned = (open: boolean, limit = 99, of: { kind: 'workflow' | 'cron'; id: string } = owner) =>
      within(theStore(), async (tx) => idsOf(await tx.findOwned(of, open, limit)))

    test('are found by id, in whatever state; or only those that are not over', async () => {
      const jobs = await given(...JOB_STATES.map((state) => ({ state, owner: { ...owner, step: state } })))
      const sorted = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))
      expect(await owned(false)).toEqual(idsOf(sorted))
      expect(await owned(false, 3)).toEqual(idsOf(sorted.slice(0, 3)))
      const open = sorted.filter(({ state }) => !isTerminal(state))
      expect(await owned(true)).toEqual(idsOf(open))
      expect(await owned(true, 2)).toEqual(idsOf(open.slice(0, 2)))
      const read = (after: string | null, limit: number) => theStore().owned(owner, after, limit)
      expect(await read(null, 99)).toEqual(sorted)
      expect(await read(null, 3)).toEqual(sorted.slice(0, 3))
      expect(await read(sorted[2]?.id ?? null, 3)).toEqual(sorted.slice(3, 6))
      expect(await theStore().lastOwned(owner, 3)).toEqual(sorted.slice(-3).reverse())
      expect(await theStore().lastOwned({ ...owner, kind: 'cron' }, 3)).toEqual([])
    })

    test('do not include jobs of other owners', async () => {
      const jobs = await given(
        { owner },
        { owner: { ...owner, kind: 'cron' } },
        { owner: { ...owner, id: 'w/1' } },
        { owner: { ...owner, id: '' } },
        {},
      )
      const [mine, cron, slashed, nameless] = idsOf(jobs)
      expect(await owned(false)).toEqual([mine])
      expect(await owned(false, 9, { kind: 'cron', id: 'w' })).toEqual([cron])
      expect(await owned(true, 9, { kind: 'workflow', id: 'w/1' })).toEqual([slashed])
      expect(await owned(true, 9, { kind: 'workflow', id: '' })).toEqual([nameless])
      expect(await owned(true, 9, { kind: 'workflow', id: 'w%' })).toEqual([])
    })

    test('are let go by a retry by hand, and may change their step', async () => {
      const [job, other] = (await given({ owner, state: 'discarded', discardedAt: at(1) }, { owner })) as [Job, Job]
      await saveIn(theStore(), changesOf(retryByHand(job, job, momentAt(2))))
      expect(await owned(false)).toEqual([other.id])
      expect((await theStore().job(job.id))?.owner).toBeNull()
      await change(other, { owner: { ...owner, step: 'b' } })
      expect((await theStore().job(other.id))?.owner).toEqual({ ...owner, step: 'b' })
    })
  })

  describe('jobs with a fingerprint', () => {
    test('are found in the states that are asked for, newest first', async () => {
      const jobs = await given(
        ...JOB_STATES.map((state, n) => ({ id: idAt(n), createdAt: at(n), state, uniqueKey: 'u' })),
        ...JOB_STATES.map((state, n) => ({ id: idAt(n), createdAt: at(n), state, uniqueKey: 'v' })),
      )
      const newest = jobs.slice(0, JOB_STATES.length).reverse()
      const unique = (states: readonly JobState[], limit = 99, key = 'u') =>
        within(theStore(), async (tx) => idsOf(await tx.findUnique(key, states, limit)))
      expect(await unique(JOB_STATES)).toEqual(idsOf(newest))
      expect(await unique(JOB_STATES, 2)).toEqual(idsOf(newest.slice(0, 2)))
      expect(await unique(['available', 'active', 'discarded'])).toEqual(
        idsOf(newest.filter(({ state }) => ['available', 'active', 'discarded'].includes(state))),
      )
      expect(await unique([])).toEqual([])
      expect(await unique(JOB_STATES, 99, 'w')).toEqual([])
      const [first] = newest as [Job]
      await change(first, null)
      expect(await unique([first.state])).toEqual([])
    })
  })

  describe('counts within a transaction', () => {
    test('are those of the queues that were asked for, every state of them', async () => {
      await given(...JOB_STATES.map((state) => ({ state })), { queue: 'other' }, { queue: 'third' })
      const counts = await within(theStore(), (tx) => tx.seeCounts(['default', 'empty', 'other']))
      const numbers = (n: (state: JobState) => number) =>
        Object.fromEntries(JOB_STATES.map((state) => [state, n(state)]))
      expect(Object.fromEntries([...counts].sort())).toEqual({
        default: numbers(() => 1),
        empty: numbers(() => 0),
        other: numbers((state) => (state === 'available' ? 1 : 0)),
      })
      expect(await within(theStore(), (tx) => tx.seeCounts([]))).toEqual(new Map())
    })

    test('and active jobs by limiter are those of what it has saved', async () => {
      const [first, second, third] = (await given({ limitKey: 'a' }, { limitKey: 'a' }, { limitKey: 'b' })) as [
        Job,
        Job,
        Job,
      ]
      const { nextWakeAt } = await theStore().transaction(async (tx) => {
        const seen = async () => {
          const { available, active } = (await tx.seeCounts(['default'])).get('default') ?? {}
          return [available, active, Object.fromEntries(await tx.seeLimited(['a', 'b', 'c']))]
        }
        expect(await seen()).toEqual([3, 0, {}])
        await tx.save(changesOf(claimed(first), claimed(third), admitted({ limitKey: 'a' })))
        expect(await seen()).toEqual([2, 2, { a: 1, b: 1 }])
        const [found] = (await tx.findJobs([first.id])) as [Job]
        await tx.save(changesOf(claimed(second), { before: found, job: null, events: [] }))
        expect(await seen()).toEqual([1, 2, { a: 1, b: 1 }])
        return { value: null, changes: changesOf(admitted()) }
      })
      expect(nextWakeAt).toBeDefined()
      expect((await theStore().counts()).get('default')).toMatchObject({ available: 2, active: 2 })
      expect(await theStore().limited('a')).toEqual({ available: 1, active: 1 })
      expect(await theStore().limited('b')).toEqual({ available: 0, active: 1 })
      expect(await theStore().limited('c')).toEqual({ available: 0, active: 0 })
      expect(await within(theStore(), (tx) => tx.seeLimited([]))).toEqual(new Map())
      const counts = await within(theStore(), (tx) => tx.seeCounts(['default']))
      expect(counts.get('default')).toEqual((await theStore().counts()).get('default'))
    })

    test('of limiters leave out jobs that only wait, or are over', async () => {
      await given(...JOB_STATES.map((state) => ({ state, limitKey: 'a' })))
      expect(await within(theStore(), (tx) => tx.seeLimited(['a']))).toEqual(new Map([['a', 1]]))
      expect(await theStore().limited('a')).toEqual({ available: 1, active: 1 })
    })
  })

  describe('names', () => {
    test('are locked, one or many, again and again, without harm', async () => {
      const many = Array.from({ length: 2_000 }, (_, n) => `name-${String(n)}`)
      await within(theStore(), async (tx) => {
        await tx.lockNames([])
        await tx.lockNames(['a', 'b\u0000\ud800', 'a'])
        await tx.lockNames(['b', 'a'])
        await tx.lockNames(many)
        await tx.save(changesOf(admitted()))
      })
      expect((await theStore().counts()).get('default')?.available).toBe(1)
    })
  })
}

const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id)

const random = seededRandom(7)
/** Ids that grow with the time. */
const idAt = (n: number): string => uuidV7(at(n * 1_000), random)

// Few different values, so that there are many ties.
const someJobs = fc.array(
  fc.record({
    queue: fc.constantFrom('default', 'default', 'other'),
    state: fc.constantFrom<JobState>('available', 'available', 'available', 'active', 'scheduled'),
    priority: fc.constantFrom(-100, 0, 0, 1, 100),
    wakeAt: fc.option(
      fc.integer({ min: 0, max: 3 }).map((n) => instant(n)),
      { nil: null },
    ),
    tenant: fc.constantFrom(null, 'a', 'b'),
    limitKey: fc.constantFrom(null, null, 'x', 'y'),
  }),
  { maxLength: 25 },
)

const someAsked: fc.Arbitrary<Claimable> = fc.record({
  queue: fc.constantFrom('default', 'default', 'other'),
  limit: fc.integer({ min: 1, max: 12 }),
  order: fc.constantFrom<Claimable['order']>('fifo', 'edf', 'edf'),
  tenant: fc.constantFrom(null, null, 'a'),
  without: fc.constantFrom<readonly string[]>([], [], ['x'], ['y', 'x']),
})

/** What the port says, said again without an index. */
function plainly(jobs: readonly Job[], { queue, limit, order, tenant, without }: Claimable): Job[] {
  const never = Number.MAX_SAFE_INTEGER
  return jobs
    .filter((job) => job.state === 'available' && job.queue === queue)
    .filter((job) => tenant === null || job.tenant === tenant)
    .filter(({ limitKey }) => limitKey === null || !without.includes(limitKey))
    .toSorted((a, b) => {
      const byDeadline = order === 'edf' ? (a.wakeAt ?? never) - (b.wakeAt ?? never) : 0
      return b.priority - a.priority || byDeadline || a.seq - b.seq
    })
    .slice(0, limit)
}
