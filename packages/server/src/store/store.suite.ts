/**
 * The port's contract. Every store runs it; one that must differ says so by test name, with a reason.
 *
 * `open` gives an empty store. `reopen` closes one and opens the same data again, where there is such a thing.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import fc from 'fast-check'
import {
  activate,
  ANY_JOB as ANY,
  cancel,
  complete,
  fail,
  JOB_STATES,
  millis,
  minutes,
  release,
  reportProgress,
  retryByHand,
  settleAtEnqueue,
  DEFAULT_LIMITS,
  DEFAULT_RETRY,
  type Checkpoint,
  type DocName,
  type Instant,
  type Job,
  type JobFilter,
  type Step,
  type Worker,
} from '@curfew/core'
import {
  aCheckpoint,
  admitted,
  aNotice,
  anEvent,
  aQueue,
  at,
  aTypePolicy,
  aWorker,
  changes,
  changesOf,
} from './builders.suite.ts'
import { aDoc, claimable, claimed, momentAt, saveIn, within } from './builders.suite.ts'
import { anyDoc, anyJob, anyWorker, FIELDS } from './any-record.suite.ts'
import { docsSuite } from './docs.suite.ts'
import { findsSuite } from './finds.suite.ts'
import { listsSuite } from './lists.suite.ts'
import { NOTHING, RowsMoved } from './store.ts'
import type { Batch, Changes, EventRetention, StateCounts, Store, StoredEvent } from './store.ts'

export type Open = (events?: EventRetention) => Promise<Store>
export type Reopen = (store: Store) => Promise<Store>

const FIRST_PAGE = { limit: 100, offset: 0 }

/** Properties are tried a hundred times, which takes long where every commit goes to a busy disk. */
const SLOW = { timeout: 60_000 }

export function storeSuite(name: string, open: Open, reopen?: Reopen): void {
  describe(`${name} keeps the contract of a store:`, () => {
    let store: Store

    beforeEach(async () => {
      store = await open()
    })
    afterEach(async () => {
      await store.close()
    })

    const save = (what: Changes): Promise<readonly StoredEvent[]> => saveIn(store, what)

    /** Saves the steps and gives the jobs as they are then stored. */
    const saved = async (...steps: Step[]): Promise<Job[]> => {
      await save(changesOf(...steps))
      return within(store, (tx) => tx.findJobs(steps.map(({ job }) => job.id)))
    }
    const savedOne = async (step: Step): Promise<Job> => {
      const [job] = await saved(step)
      if (job === undefined) throw new Error('it was not saved')
      return job
    }
    const remove = (...jobs: Job[]): Promise<readonly StoredEvent[]> =>
      save(changes({ jobs: jobs.map((before) => ({ before, after: null })) }))

    const claimableIds = (queue = 'default', limit = 100): Promise<string[]> =>
      within(store, async (tx) => idsOf(await tx.findClaimable(claimable(queue, limit))))
    const numbers = async (queue = 'default'): Promise<Partial<StateCounts> | undefined> => {
      const counts = (await store.counts()).get(queue)
      return counts && Object.fromEntries(Object.entries(counts).filter(([, n]) => n !== 0))
    }

    describe('a job', () => {
      test('comes back as it was saved, whatever its fields hold', SLOW, async () => {
        await fc.assert(
          fc.asyncProperty(anyJob(), someFields, async (any, fields) => {
            const { job: fresh } = admitted()
            const job = { ...fresh, seq: any.seq, ...pick(any, fields) }
            const stored = await savedOne({ before: null, job, events: [] })
            expect(stored).toEqual({ ...job, version: 1 })
          }),
        )
      })

      test('comes back as it was changed, whatever was changed', SLOW, async () => {
        await fc.assert(
          fc.asyncProperty(anyJob(), anyJob(), someFields, async (first, second, fields) => {
            const { id } = admitted().job
            const before = await savedOne({ before: null, job: { ...first, id }, events: [] })
            const { queue, type, body, createdAt, parent, traceId, uniqueKey, limitKey, tenant } = before
            const lasting = { queue, type, body, createdAt, parent, traceId, uniqueKey, limitKey, tenant }
            const after: Job = { ...before, ...pick(second, fields), ...lasting }
            expect(await savedOne({ before, job: after, events: [] })).toEqual({ ...after, version: 2 })
            expect(await store.job(id)).toEqual({ ...after, version: 2 })
          }),
        )
      })

      test('comes back after each step of its life', async () => {
        const scheduled = await savedOne(admitted({ scheduledAt: at(10), traceId: 'trace' }))
        const available = await savedOne(release(scheduled, momentAt(10)))
        const active = claimed(available, 'worker-1', 20)
        expect(await savedOne(active)).toEqual({ ...active.job, version: 3 })
        const told = reportProgress(
          await theJob(store, scheduled.id),
          { value: 0.5, message: 'half', data: '[1]' },
          at(30),
        )
        expect(await savedOne(told)).toEqual({ ...told.job, version: 4 })
        const failed = fail(await theJob(store, scheduled.id), { type: 'boom', message: 'no' }, momentAt(40))
        expect(await savedOne(failed)).toEqual({ ...failed.job, version: 5 })
        const cancelled = cancel(await theJob(store, scheduled.id), momentAt(50), { reason: 'bulk' })
        expect(await savedOne(cancelled)).toEqual({ ...cancelled.job, version: 6 })
      })

      test('takes no notice of the version it is saved with, only of the one it was found in', async () => {
        const before = await savedOne(admitted())
        expect(before.version).toBe(1)
        const { job } = claimed(before)
        expect((await savedOne({ before, job: { ...job, version: 77 }, events: [] })).version).toBe(2)
      })

      test('is not saved over a version that moved on', async () => {
        const before = await savedOne(admitted())
        await save(changesOf(claimed(before)))
        await expect(save(changesOf(cancel(before, momentAt(2), { reason: 'request' })))).rejects.toThrow(
          `another server was faster: job ${before.id}`,
        )
        await expect(remove(before)).rejects.toThrow(`another server was faster: job ${before.id}`)
        expect((await theJob(store, before.id)).state).toBe('active')
      })

      test('is not added twice, not even within one save', async () => {
        const step = admitted()
        await save(changesOf(step))
        await expect(save(changesOf(step))).rejects.toThrow(`another server was faster: job ${step.job.id}`)
        const other = admitted()
        await expect(save(changesOf(other, other))).rejects.toThrow(`another server was faster: job ${other.job.id}`)
        expect(await store.job(other.job.id)).toBeNull()
      })

      test('is not changed after it was removed', async () => {
        const before = await savedOne(admitted())
        await remove(before)
        await expect(save(changesOf(claimed(before)))).rejects.toBeInstanceOf(RowsMoved)
        await expect(remove(before)).rejects.toBeInstanceOf(RowsMoved)
      })

      test('keeps its queue, type, body, fingerprint, limiter and tenant for life', async () => {
        const before = await savedOne(admitted({ limitKey: 'a' }))
        const lasting = [{ queue: 'other' }, { type: 'other' }, { body: '' }, { uniqueKey: 'b' }, { tenant: 'b' }]
        for (const change of [...lasting, { limitKey: 'b' }, { limitKey: null }]) {
          const step = { before, job: { ...before, ...change }, events: [] }
          await expect(save(changesOf(step))).rejects.toThrow('broken promise')
        }
      })

      test('keeps a large body through many changes', async () => {
        const body = `"args":["${'x'.repeat(1_000_000)}"]`
        const before = await savedOne(admitted({ body }))
        const active = await savedOne(claimed(before))
        expect((await savedOne(complete(active, '{}', momentAt(2)))).body).toBe(body)
      })
    })

    describe('finding jobs', () => {
      test('by id gives those that exist, in the order of asking, each once', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        const ids = [b.id, 'unknown', a.id, b.id]
        expect(idsOf(await within(store, (tx) => tx.findJobs(ids)))).toEqual([b.id, a.id])
      })

      test('to hand out: by priority, then by place in the queue', async () => {
        const steps = [0, 5, -3, 5, 0].map((priority) => admitted({ priority }))
        const [first, high, low, high2, second] = idsOf(await saved(...steps))
        expect(await claimableIds()).toEqual([high, high2, first, second, low])
        expect(await claimableIds('default', 2)).toEqual([high, high2])
      })

      test('to hand out: only available ones of the queue that was asked for', async () => {
        const [mine] = idsOf(await saved(admitted(), admitted({ queue: 'other' }), admitted({ pending: true })))
        await save(changesOf(claimed(await savedOne(admitted()))))
        expect(await claimableIds()).toEqual([mine])
        expect(await claimableIds('empty')).toEqual([])
      })

      test('that are due: earliest first, up to and including now', async () => {
        const steps = [300, 100, 200, 201].map((ms) => admitted({ scheduledAt: at(ms) }))
        const [, first, second] = idsOf(await saved(...steps, admitted()))
        const due = (limit: number) => within(store, (tx) => tx.findDueJobs(at(200), limit))
        expect(idsOf(await due(10))).toEqual([first, second])
        expect(idsOf(await due(1))).toEqual([first])
      })

      test('held by a worker: only active ones that name it', async () => {
        const jobs = await saved(admitted(), admitted(), admitted(), admitted())
        const [a, b, c] = jobs as [Job, Job, Job, Job]
        await save(changesOf(claimed(a, 'worker-1'), claimed(b, 'worker-2'), claimed(c, null)))
        const held = (id: string) => within(store, async (tx) => idsOf(await tx.findHeldBy(id)))
        expect(await held('worker-1')).toEqual([a.id])
        const seen = (id: string) => within(store, (tx) => tx.seeHeldBy(id))
        expect([await seen('worker-1'), await seen('worker-2'), await seen('w')]).toEqual([[a.id], [b.id], []])
        await save(changesOf(complete(await theJob(store, a.id), null, momentAt(2))))
        expect(await held('worker-1')).toEqual([])
      })

      test('held by a worker whose name has half a surrogate pair', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        await save(changesOf(claimed(a, 'w\ud800'), claimed(b, 'w\udfff')))
        const held = await within(store, (tx) => tx.findHeldBy('w\ud800'))
        expect(held.map(({ id, hold }) => [id, hold?.workerId])).toEqual([[a.id, 'w\ud800']])
        expect(await within(store, (tx) => tx.seeHeldBy('w\ud800'))).toEqual([a.id])
      })
    })

    findsSuite(() => store)
    listsSuite(() => store)
    docsSuite(() => store)

    describe('places in the queue', () => {
      test('at the tail follow the order of the changes, within a save and across saves', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        const [c] = (await saved(admitted())) as [Job]
        expect(a.seq).toBeLessThan(b.seq)
        expect(b.seq).toBeLessThan(c.seq)
        expect(await claimableIds()).toEqual([a.id, b.id, c.id])
      })

      test('are lost by going to the tail and kept otherwise', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        const active = await savedOne(claimed(a))
        expect(active.seq).toBe(a.seq)
        const back = fail(active, { type: 'boom', message: 'no' }, momentAt(2))
        await save(changesOf(release(await savedOne(back), momentAt(5_000))))
        expect(await claimableIds()).toEqual([b.id, a.id])
      })

      test('are never given twice, though their jobs are gone', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        await remove(a, b)
        expect((await savedOne(admitted())).seq).toBeGreaterThan(b.seq)
      })
    })

    describe('counts', () => {
      test('follow every kind of change', async () => {
        const [a, b] = (await saved(
          admitted(),
          admitted(),
          admitted({ pending: true }),
          admitted({ scheduledAt: at(9) }),
        )) as [Job, Job]
        expect(await numbers()).toEqual({ available: 2, pending: 1, scheduled: 1 })
        const active = await savedOne(claimed(a))
        expect(await numbers()).toEqual({ available: 1, active: 1, pending: 1, scheduled: 1 })
        const retrying = await savedOne(fail(active, { type: 'boom', message: 'no' }, momentAt(2)))
        expect(await numbers()).toEqual({ available: 1, retryable: 1, pending: 1, scheduled: 1 })
        await save(
          changesOf(cancel(retrying, momentAt(3), { reason: 'request' }), {
            ...complete(claimed(b).job, null, momentAt(3)),
            before: b,
          }),
        )
        expect(await numbers()).toEqual({ completed: 1, cancelled: 1, pending: 1, scheduled: 1 })
        await remove(await theJob(store, a.id), await theJob(store, b.id))
        expect(await numbers()).toEqual({ pending: 1, scheduled: 1 })
      })

      test('are told by queue, those of queues that had jobs included', async () => {
        const [a] = (await saved(admitted({ queue: 'a' }), admitted({ queue: 'b' }))) as [Job]
        await remove(a)
        expect(await numbers('a')).toEqual({})
        expect(await numbers('b')).toEqual({ available: 1 })
        expect(await numbers('c')).toBeUndefined()
        await save(changes({ queues: [{ before: null, after: aQueue({ name: 'c' }) }] }))
        expect([...(await store.counts()).keys()].sort()).toEqual(['a', 'b', 'c'])
        const all = await store.counts()
        expect(await store.countsOf(['a', 'c'])).toEqual(new Map(['a', 'c'].map((queue) => [queue, all.get(queue)])))
        const sums = JOB_STATES.map((state) => [
          state,
          [...all.values()].reduce((sum, counts) => sum + counts[state], 0),
        ])
        expect(await store.totals()).toEqual(Object.fromEntries(sums))
        expect(Object.keys((await store.counts()).get('c') ?? {}).sort()).toEqual([...JOB_STATES].sort())
      })

      test('of dead letters follow the mark alone', async () => {
        const job = await savedOne({ before: null, job: { ...admitted().job, state: 'discarded' }, events: [] })
        const marked = await savedOne({
          before: job,
          job: { ...job, deadLetter: true, discardedAt: at(1) },
          events: [],
        })
        expect(byQueue(await store.deadLetterCounts())).toEqual({ default: 1 })
        await savedOne({ before: marked, job: { ...marked, deadLetter: false }, events: [] })
        expect(byQueue(await store.deadLetterCounts())).toEqual({})
        expect(await numbers()).toEqual({ discarded: 1 })
      })

      test('agree with the jobs after any story', SLOW, async () => {
        await fc.assert(
          fc.asyncProperty(fc.array(fc.nat({ max: 1_000 }), { maxLength: 60 }), async (choices) => {
            await store.reset()
            const ids: string[] = []
            for (const [ms, choice] of choices.entries()) {
              const step = await anyStep(store, ids, choice, ms)
              if (step !== null) await save(changesOf(step))
            }
            await expectCountsToAgree(store)
          }),
          { numRuns: 20 },
        )
      })
    })

    describe('lists', () => {
      test('show jobs newest first, by page and by cursor, with the total', async () => {
        const jobs = await saved(...Array.from({ length: 5 }, () => admitted()))
        const newest = idsOf(jobs).sort().reverse()
        expect((await store.jobs(ANY, null, FIRST_PAGE)).jobs.map(({ id }) => id)).toEqual(newest)
        const page = await store.jobs(ANY, null, { limit: 2, offset: 1 })
        expect([idsOf(page.jobs), page.next]).toEqual([newest.slice(1, 3), newest[2]])
        const next = await store.jobs(ANY, page.next, { limit: 2, offset: 0 })
        expect([idsOf(next.jobs), next.next]).toEqual([newest.slice(3), null])
        expect(await store.countJobs(ANY)).toEqual({ total: 5, isExact: true })
      })

      test('show jobs by queue, state and type', async () => {
        await saved(
          admitted({ queue: 'a', type: 'x' }),
          admitted({ queue: 'a', type: 'y', pending: true }),
          admitted({ queue: 'b', type: 'x' }),
        )
        const total = async (filter: Partial<JobFilter>) => {
          const { jobs } = await store.jobs({ ...ANY, ...filter }, null, FIRST_PAGE)
          const { total, isExact } = await store.countJobs({ ...ANY, ...filter })
          expect([jobs.length, isExact]).toEqual([total, true])
          return total
        }
        expect(await total({})).toBe(3)
        expect(await total({ queue: 'a' })).toBe(2)
        expect(await total({ states: ['available'] })).toBe(2)
        expect(await total({ queue: 'a', states: ['pending'] })).toBe(1)
        expect(await total({ type: 'x' })).toBe(2)
        expect(await total({ type: 'x', queue: 'a', states: ['available'] })).toBe(1)
        expect(await total({ type: 'x', states: ['pending'] })).toBe(0)
      })

      test('show jobs of every state by cursor and page', async () => {
        const all = await Promise.all(
          JOB_STATES.flatMap((state) =>
            [1, 2, 3].map(async () => savedOne({ before: null, job: { ...admitted().job, state }, events: [] })),
          ),
        )
        for (const state of JOB_STATES) {
          const newest = idsOf(all.filter((job) => job.state === state))
            .sort()
            .reverse()
          const shown = async (before: string | null, limit: number, offset: number) => {
            const filter = { ...ANY, states: [state] }
            const { jobs } = await store.jobs(filter, before, { limit, offset })
            return [idsOf(jobs), (await store.countJobs(filter)).total]
          }
          expect(await shown(null, 10, 0)).toEqual([newest, 3])
          expect(await shown(null, 1, 1)).toEqual([newest.slice(1, 2), 3])
          expect(await shown(newest[0] ?? null, 10, 0)).toEqual([newest.slice(1), 3])
          expect(await shown(null, 10, 3)).toEqual([[], 3])
        }
      })

      test('show the jobs of one tenant, and count them by state', async () => {
        const own = await saved(admitted({ tenant: 'acme' }), admitted({ tenant: 'acme', queue: 'b', pending: true }))
        await saved(admitted({ tenant: 'beta' }), admitted())
        const newest = idsOf(own).sort().reverse()
        const shown = async (filter: Partial<JobFilter>, before: string | null = null, page = FIRST_PAGE) => {
          const { jobs } = await store.jobs({ ...ANY, ...filter }, before, page)
          return [idsOf(jobs), (await store.countJobs({ ...ANY, ...filter })).total]
        }
        expect(await shown({ tenant: 'acme' })).toEqual([newest, 2])
        expect(await shown({ tenant: 'acme' }, newest[0] ?? null)).toEqual([newest.slice(1), 2])
        expect(await shown({ tenant: 'acme' }, null, { limit: 1, offset: 1 })).toEqual([newest.slice(1), 2])
        expect(await shown({ tenant: 'acme', states: ['pending'] })).toEqual([[own[1]?.id], 1])
        expect(await shown({ tenant: 'acme', queue: 'default', type: 'none' })).toEqual([[], 0])
        expect(await shown({ tenant: 'unknown' })).toEqual([[], 0])
        expect(await store.tenantCounts('acme')).toMatchObject({ available: 1, pending: 1, active: 0, completed: 0 })
        expect(await store.tenantCounts('unknown')).toMatchObject({ available: 0, pending: 0 })
      })

      test('count how many jobs are handed out before one of them, in either order, as far as they look', async () => {
        const jobs = await saved(
          admitted(),
          admitted({ expiresAt: at(40) }),
          admitted({ expiresAt: at(10) }),
          admitted(),
        )
        const above = await savedOne(admitted({ priority: 5 }))
        await savedOne(admitted({ queue: 'other', priority: 9 }))
        const ahead = (order: 'fifo' | 'edf', look = 10): Promise<unknown[]> =>
          Promise.all(
            [...jobs, above].map(async (job) => {
              const { total, isExact } = await store.ahead(job, order, look)
              return isExact ? total : `${String(total)}+`
            }),
          )
        expect(await ahead('fifo')).toEqual([1, 2, 3, 4, 0])
        expect(await ahead('edf')).toEqual([3, 2, 1, 4, 0])
        expect(await ahead('fifo', 2)).toEqual([1, 2, '3+', '3+', 0])
      })

      test('show who stands in the line of a queue, and who of them has a deadline', async () => {
        const made = [admitted(), admitted({ expiresAt: at(40) }), admitted({ expiresAt: at(10) })]
        const [plain, late, early] = await saved(...made)
        const above = await savedOne(admitted({ priority: 5, expiresAt: at(1_000) }))
        await savedOne(admitted({ queue: 'other', expiresAt: at(1) }))
        const held = await savedOne(admitted({ expiresAt: at(3) }))
        await save(changesOf(claimed(held)))
        const all = { skip: 0, look: 10 }
        const seqs = (spots: readonly { seq: number }[]) => spots.map(({ seq }) => seq)
        expect(seqs(await store.line('default', all))).toEqual([above.seq, plain?.seq, late?.seq, early?.seq])
        expect(seqs(await store.line('default', { skip: 1, look: 2 }))).toEqual([plain?.seq, late?.seq])
        expect(await store.line('none', all)).toEqual([])
        const dated = await store.datedLine('default', all)
        expect(dated).toEqual([
          { priority: 5, seq: above.seq, wakeAt: at(1_000) },
          { priority: 0, seq: early?.seq, wakeAt: at(10) },
          { priority: 0, seq: late?.seq, wakeAt: at(40) },
        ])
        expect(await store.datedLine('default', { skip: 1, look: 1 })).toEqual([dated[1]])
        const spots = [...dated.slice(0, 2), { priority: 0, seq: held.seq }].map((spot) => ({
          queue: 'default',
          ...spot,
        }))
        expect(idsOf(await store.jobsInLine(spots)).toSorted()).toEqual(idsOf([above, early!]).toSorted())
        expect(await store.jobsInLine([{ ...dated[0]!, queue: 'other' }])).toEqual([])
        expect(await store.jobsInLine([])).toEqual([])
      })

      test('show which jobs are woken before the moment they wait for', async () => {
        const doomed = await savedOne(admitted({ scheduledAt: at(50), expiresAt: at(40) }))
        await saved(admitted({ scheduledAt: at(30), expiresAt: at(40) }), admitted({ expiresAt: at(5) }), admitted())
        expect(idsOf(await store.outwaited(null, { skip: 0, look: 10 }))).toEqual([doomed.id])
        expect(idsOf(await store.outwaited('default', { skip: 2, look: 1 }))).toEqual([doomed.id])
        expect(await store.outwaited('other', { skip: 0, look: 10 })).toEqual([])
        expect(await store.outwaited(null, { skip: 0, look: 2 })).toEqual([])
      })

      test('show which jobs are woken in a stretch of time, part by part, and leave out those that are over', async () => {
        const made = [admitted({ expiresAt: at(10) }), admitted({ expiresAt: at(20) }), admitted({ expiresAt: at(20) })]
        const [first, second, third] = await saved(...made, admitted({ expiresAt: at(90) }), admitted())
        const over = await savedOne(admitted())
        await save(changesOf({ before: over, job: { ...over, state: 'completed', wakeAt: at(15) }, events: [] }))
        const asked = { from: at(5), until: at(50), skip: 0, look: 10 }
        const all = await store.waking(asked)
        expect(all.wakes).toEqual([at(10), at(15), at(20), at(20)])
        expect(idsOf(all.jobs).toSorted()).toEqual([first, second, third].map((job) => job?.id).toSorted())
        const part = await store.waking({ ...asked, look: 3 })
        expect(part.wakes).toEqual([at(10), at(15), at(20)])
        const rest = await store.waking({ ...asked, from: at(20), skip: 1, look: 3 })
        expect(rest.wakes).toEqual([at(20)])
        expect(idsOf([...part.jobs, ...rest.jobs])).toEqual(idsOf(all.jobs))
        expect(await store.waking({ ...asked, from: at(21) })).toEqual({ wakes: [], jobs: [] })
      })

      test('show active jobs, as many as asked for', async () => {
        const jobs = await saved(admitted(), admitted(), admitted())
        await save(changesOf(...jobs.slice(0, 2).map((job) => claimed(job))))
        expect(idsOf(await store.activeJobs(10)).sort()).toEqual(idsOf(jobs.slice(0, 2)).sort())
        expect(await store.activeJobs(1)).toHaveLength(1)
      })
    })

    describe('the dead-letter list', () => {
      const dead = async (queue: string, type: string, ms: number): Promise<Job> => {
        const retry = { ...DEFAULT_RETRY, maxAttempts: 1, onExhaustion: 'dead_letter' as const }
        const job = await savedOne(admitted({ queue, type, retry }))
        const active = await savedOne(claimed(job, 'worker-1', ms))
        return savedOne(fail(active, { type: 'boom', message: 'no' }, momentAt(ms)))
      }

      test('shows its members newest first, by queue and type, with the total', async () => {
        const a = await dead('a', 'x', 10)
        const b = await dead('b', 'x', 30)
        const c = await dead('a', 'y', 20)
        const shown = async (queue: string | null, type: string | null, page = FIRST_PAGE) => {
          const { jobs, total } = await store.deadLetters({ queue, type }, page)
          return [idsOf(jobs), total]
        }
        expect(await store.deadLetters({ queue: null, type: null, tenant: 'acme' }, FIRST_PAGE)).toEqual({
          jobs: [],
          total: 0,
        })
        expect(await shown(null, null)).toEqual([[b.id, c.id, a.id], 3])
        expect(await shown('a', null)).toEqual([[c.id, a.id], 2])
        expect(await shown(null, 'x')).toEqual([[b.id, a.id], 2])
        expect(await shown('a', 'x')).toEqual([[a.id], 1])
        expect(await shown(null, null, { limit: 1, offset: 1 })).toEqual([[c.id], 3])
      })

      test('counts its members by queue, and forgets those that are retried or removed', async () => {
        const a = await dead('a', 'x', 10)
        const b = await dead('b', 'x', 20)
        await dead('b', 'x', 30)
        expect(byQueue(await store.deadLetterCounts())).toEqual({ a: 1, b: 2 })
        await save(changesOf(retryByHand(a, a, momentAt(40))))
        await remove(b)
        expect(byQueue(await store.deadLetterCounts())).toEqual({ b: 1 })
        expect((await store.deadLetters({ queue: null, type: null }, FIRST_PAGE)).total).toBe(1)
        expect(await numbers('b')).toEqual({ discarded: 1 })
      })

      test('gives its oldest members beyond the newest so many', async () => {
        const a = await dead('a', 'x', 10)
        const c = await dead('a', 'x', 30)
        const b = await dead('b', 'x', 20)
        const beyond = (keep: number, limit: number) =>
          within(store, async (tx) => idsOf(await tx.findDeadLettersBeyond(keep, limit)))
        expect(await beyond(3, 10)).toEqual([])
        expect(await beyond(2, 10)).toEqual([a.id])
        expect(await beyond(0, 10)).toEqual([a.id, b.id, c.id])
        expect(await beyond(0, 2)).toEqual([a.id, b.id])
      })
    })

    describe('a removed job', () => {
      test('is gone with its checkpoint, and remembered as gone', async () => {
        const job = await savedOne(admitted())
        await save(changes({ checkpoints: [{ jobId: job.id, checkpoint: aCheckpoint(job.id) }] }))
        expect(await store.wasPurged(job.id)).toBe(false)
        await remove(job)
        expect(await store.job(job.id)).toBeNull()
        expect(await store.checkpoint(job.id)).toBeNull()
        expect(await store.wasPurged(job.id)).toBe(true)
        expect(await store.wasPurged('never')).toBe(false)
      })

      test('may come again under the same id', async () => {
        const first = await savedOne(admitted({ body: '"args":[1]' }))
        await remove(first)
        const again = await savedOne(admitted({ id: first.id, body: '"args":[2]' }))
        expect([again.body, again.version]).toEqual(['"args":[2]', 1])
        await remove(again)
        expect(await store.job(first.id)).toBeNull()
        expect(await store.wasPurged(first.id)).toBe(true)
      })
    })

    describe('checkpoints, queues and types', () => {
      test('a checkpoint is replaced, found and removed', async () => {
        const checkpoint: Checkpoint = { ...aCheckpoint('job'), stepIndex: 3, metadata: '{"a":"\\ud800"}' }
        const put = (given: Checkpoint | null) => save(changes({ checkpoints: [{ jobId: 'job', checkpoint: given }] }))
        await put(aCheckpoint('job'))
        await put(checkpoint)
        expect(await store.checkpoint('job')).toEqual(checkpoint)
        expect(await within(store, (tx) => tx.findCheckpoints(['none', 'job']))).toEqual([checkpoint])
        await put(null)
        expect(await store.checkpoint('job')).toBeNull()
      })

      test('a queue is replaced, found and listed by name', async () => {
        const config = { default_timeout: 5, order: 'fifo', note: 'a\u0000\ud800', nested: { __proto__x: [1, null] } }
        const [a, b] = [aQueue({ name: 'a', version: 1 }), aQueue({ name: 'b', version: 1 })]
        const paused = aQueue({ name: 'b', version: 2, pausedAt: at(5), config })
        await save(changes({ queues: [b, a].map((after) => ({ before: null, after })) }))
        await save(changes({ queues: [{ before: b, after: paused }] }))
        expect(await store.queue('b')).toEqual(paused)
        expect(await store.queue('c')).toBeNull()
        expect(await store.queues()).toEqual([a, paused])
        expect(await within(store, (tx) => tx.seeQueues(['b', 'c']))).toEqual([paused])
      })

      test('queues come by page, by age and in numbers', async () => {
        const [old, paused, young] = [
          aQueue({ name: 'c', version: 1, createdAt: at(1) }),
          aQueue({ name: 'a', version: 1, createdAt: at(2), pausedAt: at(5) }),
          aQueue({ name: 'b', version: 1, createdAt: at(3) }),
        ] as const
        await save(changes({ queues: [young, paused, old].map((after) => ({ before: null, after })) }))
        expect(await store.queuesPage({ limit: 2, offset: 1 })).toEqual({ queues: [young, old], total: 3 })
        expect(await store.queuesPage({ limit: 2, offset: 3 })).toEqual({ queues: [], total: 3 })
        expect(await store.firstQueues(2)).toEqual([old, paused])
        expect(await store.queueTotals()).toEqual({ total: 3, paused: 1 })
      })

      test('a queue that another server added meanwhile is left as it is; one that moved on is refused', async () => {
        const first = aQueue({ version: 1, pausedAt: at(1) })
        await save(changes({ queues: [{ before: null, after: first }] }))
        await save(changes({ queues: [{ before: null, after: aQueue() }] }))
        expect(await store.queue('default')).toEqual(first)
        const stale = save(changes({ queues: [{ before: { ...first, version: 7 }, after: aQueue() }] }))
        await expect(stale).rejects.toBeInstanceOf(RowsMoved)
        expect(await store.queue('default')).toEqual(first)
      })

      test('a worker gets its notices, oldest first, until it has acknowledged them', async () => {
        const notices = [1, 2, 3].map((lease) => aNotice({ lease, at: at(lease) }))
        const other = aNotice({ jobId: 'other', reason: 'cancelled' })
        const heard = (newest = 9) => within(store, (tx) => tx.findNotices(['w\ud800', 'unknown', 'b'], newest))
        await save(
          changes({
            notices: [...notices.map((notice) => ({ workerId: 'w\ud800', notice })), { workerId: 'b', notice: other }],
          }),
        )
        expect(await heard()).toEqual([
          ...notices.map((notice) => ({ workerId: 'w\ud800', notice })),
          { workerId: 'b', notice: other },
        ])
        expect((await heard(2)).map(({ notice }) => notice.lease)).toEqual([2, 3, 1])
        await save(changes({ told: [{ workerId: 'w\ud800', jobId: 'job-1', lease: 2 }] }))
        expect((await heard()).map(({ notice }) => notice.lease)).toEqual([1, 3, 1])
        await save(
          changes({
            told: [{ workerId: 'w\ud800', jobId: null, lease: null }],
            notices: [{ workerId: 'w\ud800', notice: aNotice({ lease: 4 }) }],
          }),
        )
        expect((await heard()).map(({ notice }) => notice.lease)).toEqual([4, 1])
      })

      test('a type policy is replaced, found, listed and removed', async () => {
        const policy = aTypePolicy({
          asked: { timeout: minutes(1), onTimeout: 'discard' },
          caps: { total: minutes(9) },
          sent: { timeout: 60 },
        })
        await save(changes({ types: [{ type: policy.type, policy: aTypePolicy() }] }))
        await save(changes({ types: [{ type: policy.type, policy }] }))
        expect(await store.types()).toEqual([policy])
        expect(await within(store, (tx) => tx.seeTypes(['none', policy.type]))).toEqual([policy])
        await save(changes({ types: [{ type: policy.type, policy: null }] }))
        expect(await store.types()).toEqual([])
      })
    })

    describe('a worker', () => {
      const add = (...workers: Worker[]) =>
        save(changes({ workers: workers.map((after) => ({ before: null, after })) }))

      test('comes back as it was saved and changed, whatever its fields hold', SLOW, async () => {
        let workers = 0
        await fc.assert(
          fc.asyncProperty(anyWorker(), anyWorker(), async (first, second) => {
            const id = `${first.id}${String(++workers)}`
            await add({ ...first, id })
            const before = await store.worker(id)
            expect(before).toEqual({ ...first, id, version: 1 })
            await save(changes({ workers: [{ before, after: { ...second, id } }] }))
            const after = { ...second, id, version: 2 }
            expect(await store.worker(id)).toEqual(after)
            expect(await within(store, (tx) => tx.findWorkers(['unknown', id]))).toEqual([after])
          }),
        )
        expect(await store.workers()).toHaveLength(workers)
      })

      test('comes by page and in numbers, unless it is dead', async () => {
        const silent = { known: true, diedAt: null, lastSeenAt: at(1) } as const
        const heard = { ...silent, lastSeenAt: at(9) }
        await add(
          aWorker({ ...silent, id: 'a', state: 'running' }),
          aWorker({ ...heard, id: 'b', state: 'running' }),
          aWorker({ ...silent, id: 'c', state: 'quiet', known: false }),
          aWorker({ ...silent, id: 'd', state: 'running', diedAt: at(2) }),
        )
        expect((await store.workersPage({ limit: 2, offset: 1 })).map(({ id }) => id)).toEqual(['b', 'c'])
        expect([...(await store.workerTotals(at(5)))].sort((a, b) => a.count - b.count)).toEqual([
          { state: 'quiet', count: 1, silent: 0 },
          { state: 'running', count: 2, silent: 1 },
        ])
      })

      test('is not saved over a version that moved on, nor added twice', async () => {
        await add(aWorker())
        const before = await store.worker('worker-1')
        await save(changes({ workers: [{ before, after: aWorker({ pid: 2 }) }] }))
        await expect(save(changes({ workers: [{ before, after: aWorker({ pid: 3 }) }] }))).rejects.toThrow(
          'another server was faster: worker worker-1',
        )
        await expect(save(changes({ workers: [{ before, after: null }] }))).rejects.toThrow(
          'another server was faster: worker worker-1',
        )
        await expect(add(aWorker())).rejects.toThrow('another server was faster: worker worker-1')
        await save(changes({ workers: [{ before: await store.worker('worker-1'), after: null }] }))
        expect(await store.worker('worker-1')).toBeNull()
      })

      test('is found when it is due, earliest first', async () => {
        await add(
          aWorker({ id: 'c', wakeAt: at(30) }),
          aWorker({ id: 'a', wakeAt: at(20) }),
          aWorker({ id: 'b', wakeAt: at(10) }),
          aWorker({ id: 'd', wakeAt: null }),
        )
        const due = (now: Instant, limit: number) => within(store, (tx) => tx.findDueWorkers(now, limit))
        expect(idsOf(await due(at(20), 10))).toEqual(['b', 'a'])
        expect(idsOf(await due(at(99), 1))).toEqual(['b'])
      })
    })

    describe('waking', () => {
      test('is due at the nearest instant of any job, worker or document', async () => {
        expect(await store.nextWakeAt()).toBeNull()
        await save(changes({ workers: [{ before: null, after: aWorker({ wakeAt: at(500) }) }] }))
        expect(await store.nextWakeAt()).toBe(at(500))
        const [job] = (await saved(admitted({ scheduledAt: at(100) }), admitted({ scheduledAt: at(200) }))) as [Job]
        expect(await store.nextWakeAt()).toBe(at(100))
        await remove(job)
        expect(await store.nextWakeAt()).toBe(at(200))
        const docs = [300, 150].map((ms) => ({ before: null, after: aDoc({ id: String(ms), wakeAt: at(ms) }) }))
        await save(changes({ docs }))
        expect(await store.nextWakeAt()).toBe(at(150))
        const [, before = null] = docs.map(({ after }) => after)
        const { nextWakeAt } = await store.transaction(() =>
          Promise.resolve({ value: null, changes: changes({ docs: [{ before, after: null }] }) }),
        )
        expect([nextWakeAt, await store.nextWakeAt()]).toEqual([at(200), at(200)])
      })

      test('of jobs and documents alone can be asked for', async () => {
        await save(changes({ workers: [{ before: null, after: aWorker({ wakeAt: at(50) }) }] }))
        expect(await store.nextWorkAt()).toBeNull()
        await save(changes({ docs: [{ before: null, after: aDoc({ wakeAt: at(300) }) }] }))
        expect(await store.nextWorkAt()).toBe(at(300))
        await saved(admitted({ scheduledAt: at(100) }))
        expect([await store.nextWorkAt(), await store.nextWakeAt()]).toEqual([at(100), at(50)])
      })

      test('happens anew at the instant a job was re-armed to', async () => {
        const job = await savedOne(admitted({ scheduledAt: at(100) }))
        await savedOne({ before: job, job: { ...job, wakeAt: at(50) }, events: [] })
        expect(await store.nextWakeAt()).toBe(at(50))
      })
    })

    describe('the log', () => {
      test('numbers events in their order and gives them back', async () => {
        const told = await save(
          changes({ events: [anEvent({ subject: 'a' }), anEvent({ subject: 'b', data: { x: 'a\u0000\ud800' } })] }),
        )
        expect(told.map(({ sequence, subject }) => [sequence, subject])).toEqual([
          [1, 'a'],
          [2, 'b'],
        ])
        const more = await save(changes({ events: [anEvent({ subject: 'w\ud800', queue: null, at: at(5) })] }))
        const all = [...told, ...more]
        expect(await store.eventsAfter(0, 10)).toEqual(all)
        expect(await store.eventsAfter(1, 1)).toEqual(all.slice(1, 2))
        const part = { above: 0, below: 1_000, types: [], limit: 10, order: 'oldest' } as const
        expect(await store.eventsAmong(part)).toEqual(all)
        expect(await store.eventsAmong({ ...part, order: 'newest', limit: 1 })).toEqual(all.slice(-1))
        expect(await store.eventsAmong({ ...part, above: 1, below: 3 })).toEqual(all.slice(1, 2))
        const types = [all[1]?.type ?? '']
        expect(await store.eventsAmong({ ...part, types })).toEqual(all.filter(({ type }) => type === types[0]))
        expect(await store.eventsAmong({ ...part, types: ['none', ...types], limit: 1 })).toHaveLength(1)
        expect(await store.event(3)).toEqual(more[0])
        expect(await store.event(4)).toBeNull()
        expect(JSON.parse(told[1]?.data ?? '')).toEqual({ x: 'a\u0000\ud800' })
      })

      test('has bounds', async () => {
        expect(await store.eventBounds()).toEqual({ first: 0, last: 0 })
        await save(changes({ events: [anEvent(), anEvent()] }))
        expect(await store.eventBounds()).toEqual({ first: 1, last: 2 })
      })

      test('keeps no more events than it may', async () => {
        await store.close()
        store = await open({ maxAgeMs: minutes(60), maxCount: 5 })
        for (let n = 0; n < 20; n++) {
          await save(changes({ events: [anEvent()] }))
          expect(await store.eventBounds()).toEqual({ first: Math.max(1, n - 3), last: n + 1 })
        }
        await save(changes({ events: Array.from({ length: 50 }, () => anEvent()) }))
        expect(await store.eventBounds()).toEqual({ first: 66, last: 70 })
        expect(await store.eventsAfter(0, 100)).toHaveLength(5)
      })

      test('keeps no events that are too old beside the newest', async () => {
        await store.close()
        store = await open({ maxAgeMs: millis(100), maxCount: 1_000 })
        for (const ms of [0, 50, 100, 101]) await save(changes({ events: [anEvent({ at: at(ms) })] }))
        expect(await store.eventBounds()).toEqual({ first: 2, last: 4 })
        await save(changes({ events: [anEvent({ at: at(9_000) })] }))
        expect(await store.eventBounds()).toEqual({ first: 5, last: 5 })
      })
    })

    describe('the server', () => {
      test('leaves its sign of life and its outages', async () => {
        expect(await store.life()).toEqual({ aliveAt: null, outages: [] })
        const outages = [{ from: at(1), to: at(2) }]
        await save(changes({ aliveAt: at(5), outages: { before: [], after: outages } }))
        await save(changes({ aliveAt: at(6) }))
        expect(await store.life()).toEqual({ aliveAt: at(6), outages })
        expect(await within(store, (tx) => tx.seeLife())).toEqual({ aliveAt: at(6), outages })
        await save(changes({ outages: { before: outages, after: [] } }))
        expect((await store.life()).outages).toEqual([])
      })

      test('does not take back a sign of life, nor an outage it has not seen', async () => {
        const outages = [{ from: at(1), to: at(2) }]
        await save(changes({ aliveAt: at(5), outages: { before: [], after: outages } }))
        await save(changes({ aliveAt: at(4) }))
        const unseen = save(changes({ outages: { before: [], after: [{ from: at(3), to: at(4) }] } }))
        await expect(unseen).rejects.toBeInstanceOf(RowsMoved)
        expect(await store.life()).toEqual({ aliveAt: at(5), outages })
      })
    })

    describe('a transaction', () => {
      test('sees what it has saved', async () => {
        await within(store, async (tx) => {
          const step = admitted()
          await tx.save(changesOf(step))
          const [job] = (await tx.findClaimable(claimable('default', 1))) as [Job]
          expect(job).toEqual({ ...step.job, seq: job.seq, version: 1 })
          await tx.save(changesOf(claimed(job, 'worker-1')))
          expect(await tx.findClaimable(claimable('default', 1))).toEqual([])
          const [held] = await tx.findHeldBy('worker-1')
          expect([held?.id, held?.version]).toEqual([job.id, 2])
        })
      })

      test('leaves nothing when it fails: no rows, no events, no counts, no places', async () => {
        const kept = await savedOne(admitted())
        const before = {
          counts: await store.counts(),
          bounds: await store.eventBounds(),
          wakeAt: await store.nextWakeAt(),
        }
        const limits = settleAtEnqueue({
          publish: { timeout: minutes(7) },
          type: null,
          queue: null,
          server: DEFAULT_LIMITS,
        })
        const lost = [
          admitted({ limits, scheduledAt: at(9) }),
          admitted({ limits, queue: 'lost' }),
          admitted({ limits }),
        ]
        const work = within(store, async (tx) => {
          await tx.save({
            ...changesOf(...lost, claimed(kept)),
            workers: [{ before: null, after: aWorker() }],
            queues: [{ before: null, after: aQueue({ name: 'lost' }) }],
            notices: [{ workerId: 'worker-1', notice: aNotice() }],
            types: [{ type: 'lost', policy: aTypePolicy({ type: 'lost' }) }],
            checkpoints: [{ jobId: kept.id, checkpoint: aCheckpoint(kept.id) }],
            docs: [{ before: null, after: aDoc({ wakeAt: at(1) }) }],
            aliveAt: at(1),
            outages: { before: [], after: [{ from: at(1), to: at(2) }] },
          })
          throw new Error('changed my mind')
        })
        await expect(work).rejects.toThrow('changed my mind')
        expect({
          counts: await store.counts(),
          bounds: await store.eventBounds(),
          wakeAt: await store.nextWakeAt(),
        }).toEqual(before)
        expect(await store.job(kept.id)).toEqual(kept)
        for (const { job } of lost) expect(await store.job(job.id)).toBeNull()
        expect([
          await store.workers(),
          await store.queues(),
          await store.types(),
          await store.checkpoint(kept.id),
          await store.doc('cron', 'nightly'),
        ]).toEqual([[], [], [], null, null])
        expect(await store.life()).toEqual({ aliveAt: null, outages: [] })
        expect(await within(store, (tx) => tx.findNotices(['worker-1'], 9))).toEqual([])
        // The log goes on as if nothing had been, and new events refer to nothing that was lost.
        const [told] = await save(changes({ events: [anEvent()] }))
        expect(told?.sequence).toBe(before.bounds.last + 1)
        const next = await saved(admitted({ limits }), admitted({ limits }), admitted({ limits }))
        const places = [kept, ...next].map(({ seq }) => seq)
        expect(places).toEqual([...new Set(places)].sort((a, b) => a - b))
        expect(next.map((job) => job.limits)).toEqual([limits, limits, limits])
      })

      test('that failed in a save fails as a whole, even if its work goes on', async () => {
        const job = await savedOne(admitted())
        const work = within(store, async (tx) => {
          await tx.save(changesOf(admitted({ queue: 'lost' })))
          await tx.save(changesOf(cancel({ ...job, version: 9 }, momentAt(1), { reason: 'request' }))).catch(() => {})
          await tx.save(changesOf(admitted({ queue: 'lost' }))).catch(() => {})
        })
        await expect(work).rejects.toBeInstanceOf(RowsMoved)
        expect(await claimableIds('lost')).toEqual([])
      })

      test('cannot be used when it is over', async () => {
        const tx = await within(store, (it) => Promise.resolve(it))
        await expect(tx.findClaimable(claimable('default', 1))).rejects.toThrow('over')
        await expect(tx.save(changesOf(admitted()))).rejects.toThrow('over')
        expect(await claimableIds()).toEqual([])
      })

      test('waits for the one before it', async () => {
        const job = await savedOne(admitted())
        const order: string[] = []
        const claim = (worker: string) =>
          within(store, async (tx) => {
            order.push(`${worker} begins`)
            const [found] = await tx.findClaimable(claimable('default', 1))
            await Promise.resolve()
            if (found !== undefined) await tx.save(changesOf(claimed(found, worker)))
            order.push(`${worker} ends`)
            return found?.id ?? null
          })
        expect(await Promise.all([claim('a'), claim('b')])).toEqual([job.id, null])
        expect(order).toEqual(['a begins', 'a ends', 'b begins', 'b ends'])
      })

      test('does not let a read see what may still be rolled back', async () => {
        const step = admitted()
        const reads: Promise<unknown>[] = []
        const work = within(store, async (tx) => {
          await tx.save(changesOf(step))
          reads.push(store.job(step.job.id), store.counts(), store.eventBounds())
          await Promise.resolve()
          throw new Error('changed my mind')
        })
        await expect(work).rejects.toThrow('changed my mind')
        expect(await Promise.all(reads)).toEqual([null, new Map(), { first: 0, last: 0 }])
      })
    })

    describe('the store', () => {
      test('answers a ping and tells what it is', async () => {
        await store.ping()
        expect(store.health).toEqual({ kind: expect.any(String), version: expect.stringMatching(/^\d/) })
      })

      test('is empty after a reset, and begins anew', async () => {
        const job = await savedOne(admitted())
        await remove(job)
        await save({
          ...changesOf(admitted(), admitted()),
          queues: [{ before: null, after: aQueue() }],
          workers: [{ before: null, after: aWorker() }],
          notices: [{ workerId: 'worker-1', notice: aNotice() }],
          docs: [{ before: null, after: aDoc({ wakeAt: at(1) }) }],
          aliveAt: at(1),
        })
        await store.reset()
        expect((await store.countJobs(ANY)).total).toBe(0)
        expect([await store.counts(), await store.queues(), await store.workers()]).toEqual([new Map(), [], []])
        expect([await store.doc('cron', 'nightly'), await store.nextWakeAt()]).toEqual([null, null])
        expect(await store.wasPurged(job.id)).toBe(false)
        expect(await store.eventBounds()).toEqual({ first: 0, last: 0 })
        expect(await store.life()).toEqual({ aliveAt: null, outages: [] })
        expect(await within(store, (tx) => tx.findNotices(['worker-1'], 9))).toEqual([])
        const again = admitted()
        expect(await savedOne(again)).toEqual({ ...again.job, seq: expect.any(Number), version: 1 })
      })

      test('refuses everything once it is closed, and may be closed twice', async () => {
        await store.close()
        await store.close()
        await expect(store.ping()).rejects.toThrow('closed')
        await expect(store.counts()).rejects.toThrow('closed')
      })
    })

    describe('a restore', () => {
      const EMPTY_SIZES = {
        queues: 0,
        types: 0,
        workers: 0,
        notices: 0,
        jobs: 0,
        checkpoints: 0,
        docs: 0,
        tombstones: 0,
        events: 0,
        inbox: 0,
        refused: 0,
      }

      /** One of everything, jobs in every state among it. */
      const aFullStore = async (): Promise<void> => {
        const retry = { ...DEFAULT_RETRY, maxAttempts: 1, onExhaustion: 'dead_letter' as const }
        const jobs = await saved(
          admitted(),
          admitted({ scheduledAt: at(60_000) }),
          admitted({ pending: true }),
          ...[1, 2, 3, 4].map(() => admitted({ queue: 'other', traceId: 'a\u0000\ud800', limitKey: 'api' })),
          admitted({ queue: 'other', retry, owner: { kind: 'workflow', id: 'w', step: 'a' }, uniqueKey: 'u' }),
        )
        const [, , , active, completed, failed, cancelled, dead] = jobs as [Job, Job, Job, Job, Job, Job, Job, Job]
        const running = await saved(...[active, completed, failed, dead].map((job) => claimed(job, 'w\ud800', 5)))
        const [, done, broke, died] = running as [Job, Job, Job, Job]
        const gone = await saved(admitted(), admitted())
        await remove(...gone)
        await save({
          ...changesOf(
            complete(done, '{"a":1.0}', momentAt(6)),
            fail(broke, { type: 'boom', message: 'no' }, momentAt(6)),
            fail(died, { type: 'boom', message: 'no' }, momentAt(6)),
            cancel(cancelled, momentAt(6), { reason: 'request' }),
          ),
          queues: ['default', 'other', 'paused'].map((name) => ({ before: null, after: aQueue({ name }) })),
          types: [{ type: 'email.send', policy: aTypePolicy({ sent: { timeout: 5 } }) }],
          workers: ['w\ud800', 'worker-1', 'worker-2'].map((id) => ({
            before: null,
            after: aWorker({
              id,
              beat: {
                at: at(6),
                jobs: new Set([active.id]),
                proofs: new Set(),
                leases: { [active.id]: 1 },
                visibilityMs: null,
              },
            }),
          })),
          notices: ['b', 'a', 'c'].map((jobId) => ({ workerId: 'worker-1', notice: aNotice({ jobId }) })),
          checkpoints: [active, completed, failed].map(({ id }) => ({ jobId: id, checkpoint: aCheckpoint(id) })),
          docs: ['cron', 'step', 'step'].map((kind, n) => ({
            before: null,
            after: aDoc({ kind, id: `w/${String(n)}`, wakeAt: n === 0 ? at(9) : null }),
          })),
          aliveAt: at(7),
          outages: { before: [], after: [{ from: at(1), to: at(2) }] },
        })
        const [queue] = (await store.queues()).slice(-1)
        if (queue !== undefined)
          await save(changes({ queues: [{ before: queue, after: { ...queue, pausedAt: at(8) } }] }))
      }

      /** What tells whether two stores hold the same: the batch, and what is derived from it. */
      const shownBy = async () => ({
        batch: await everythingIn(store),
        sizes: await store.sizes(),
        counts: await store.counts(),
        deadLetters: await store.deadLetters({ queue: null, type: null }, FIRST_PAGE),
        claimable: [await claimableIds(), await claimableIds('other')],
        bounds: await store.eventBounds(),
        wakeAt: await store.nextWakeAt(),
        held: await within(store, (tx) => tx.findHeldBy('w\ud800')),
        owned: await within(store, (tx) => tx.findOwned({ kind: 'workflow', id: 'w' }, false, 9)),
        unique: await within(store, (tx) => tx.findUnique('u', JOB_STATES, 9)),
        limited: await store.limited('api'),
        due: await within(store, (tx) => tx.findDueDocs(at(9), 9)),
        told: await within(store, (tx) => tx.findNotices(['worker-1', 'worker-2'], 9)),
      })

      test('brings back everything there was, and what follows from it', async () => {
        await aFullStore()
        const before = await shownBy()
        expect(before.batch.jobs.map(({ state }) => state).sort()).toEqual([...JOB_STATES].sort())
        expect(before.sizes).toEqual({
          queues: 3,
          types: 1,
          workers: 3,
          notices: 3,
          jobs: 8,
          checkpoints: 3,
          docs: 3,
          tombstones: 2,
          events: before.bounds.last,
          inbox: 0,
          refused: 0,
        })
        expect([before.owned.length, before.unique.length, before.due.length]).toEqual([1, 1, 1])
        expect(before.limited).toEqual({ available: 0, active: 1 })
        await store.reset()
        expect(await store.sizes()).toEqual(EMPTY_SIZES)
        await store.restore(before.batch, false)
        expect(await shownBy()).toEqual(before)
        await expectCountsToAgree(store)
        for (const id of before.batch.tombstones) expect(await store.wasPurged(id)).toBe(true)
      })

      test('may come in many batches, one record each', async () => {
        await aFullStore()
        const before = await shownBy()
        await store.reset()
        const { life, ...kinds } = before.batch
        for (const [kind, records] of Object.entries(kinds)) {
          for (const record of records) await store.restore({ ...NOTHING, [kind]: [record] }, true)
        }
        await store.restore({ ...NOTHING, life }, false)
        expect(await shownBy()).toEqual(before)
      })

      test('keeps a job in the version it had, whatever its fields hold', SLOW, async () => {
        const { id } = admitted().job
        await fc.assert(
          fc.asyncProperty(anyJob(), fc.integer({ min: 1, max: 1_000_000 }), async (any, version) => {
            await store.reset()
            const job: Job = { ...any, id, version }
            await store.restore({ ...NOTHING, jobs: [job] }, false)
            expect(await store.job(id)).toEqual(job)
            expect(await store.jobsAfter(null, 9)).toEqual([job])
            await save(changes({ jobs: [{ before: job, after: { ...job, priority: 7 } }] }))
            expect(await store.job(id)).toEqual({ ...job, priority: 7, version: version + 1 })
          }),
        )
      })

      test('keeps a worker in the version it had, whatever its fields hold', SLOW, async () => {
        await fc.assert(
          fc.asyncProperty(anyWorker(), fc.integer({ min: 1, max: 1_000_000 }), async (any, version) => {
            await store.reset()
            const worker: Worker = { ...any, version }
            await store.restore({ ...NOTHING, workers: [worker] }, false)
            expect(await store.workers()).toEqual([worker])
          }),
        )
      })

      test('keeps a document in the version it had, whatever it holds', SLOW, async () => {
        await fc.assert(
          fc.asyncProperty(anyDoc(), fc.integer({ min: 1, max: 1_000_000 }), async (any, version) => {
            await store.reset()
            const doc = { ...any, version }
            await store.restore({ ...NOTHING, docs: [doc] }, false)
            expect(await store.docsAfter(null, 9)).toEqual([doc])
            await save(changes({ docs: [{ before: doc, after: { ...doc, body: '{}' } }] }))
            expect(await store.doc(doc.kind, doc.id)).toEqual({ ...doc, body: '{}', version: version + 1 })
          }),
        )
      })

      test('gives no place in the queue or in the log a second time', async () => {
        const seq = 123_456
        const early = { ...admitted().job, seq, version: 4 }
        const events = [7, 8, 12].map((sequence) => storedEvent(sequence))
        await store.restore({ ...NOTHING, jobs: [early, { ...admitted().job, seq: 5, version: 1 }], events }, false)
        expect(await store.eventBounds()).toEqual({ first: 7, last: 12 })
        expect(await store.event(8)).toEqual(events[1])
        const late = await savedOne(admitted())
        expect(late.seq).toBeGreaterThan(seq)
        expect((await store.eventsAfter(12, 9)).map(({ sequence }) => sequence)).toEqual([13])
        if (reopen === undefined) return
        await remove(late, early)
        store = await reopen(store)
        const later = await savedOne(admitted())
        expect(later.seq).toBeGreaterThan(late.seq)
        expect((await store.eventBounds()).first).toBe(7)
        expect((await store.eventsAfter(13, 9)).map(({ sequence }) => sequence)).toEqual([14])
      })

      test('refuses what is there already, and then leaves nothing of its batch', async () => {
        await aFullStore()
        const before = await shownBy()
        const { queues, types, workers, jobs, checkpoints, docs, events } = before.batch
        const fresh = { ...admitted().job, seq: 99, version: 1 }
        const twice = [{ queues }, { types }, { workers }, { jobs }, { checkpoints }, { docs }, { events }]
        for (const again of twice) {
          const restoring = store.restore({ ...NOTHING, jobs: [fresh], ...again }, true)
          await expect(restoring).rejects.toBeInstanceOf(RowsMoved)
        }
        expect(await shownBy()).toEqual(before)
        expect(await store.isHalfRestored()).toBe(false)
      })

      test('replaces the signs of life', async () => {
        await save(changes({ aliveAt: at(9), outages: { before: [], after: [{ from: at(1), to: at(2) }] } }))
        await store.restore({ ...NOTHING, life: { aliveAt: at(3), outages: [] } }, false)
        expect(await store.life()).toEqual({ aliveAt: at(3), outages: [] })
        await store.restore({ ...NOTHING, life: { aliveAt: null, outages: [] } }, false)
        expect(await store.life()).toEqual({ aliveAt: null, outages: [] })
      })

      test('is known to be unfinished until its last batch', async () => {
        expect(await store.isHalfRestored()).toBe(false)
        await store.restore({ ...NOTHING, queues: [aQueue({ version: 1 })] }, true)
        if (reopen !== undefined) store = await reopen(store)
        expect(await store.isHalfRestored()).toBe(true)
        await store.restore(NOTHING, false)
        expect(await store.isHalfRestored()).toBe(false)
        await store.restore(NOTHING, true)
        await store.reset()
        expect(await store.isHalfRestored()).toBe(false)
        expect(await store.sizes()).toEqual(EMPTY_SIZES)
      })
    })

    describe.skipIf(reopen === undefined)('opened again', () => {
      const again = async (): Promise<void> => {
        if (reopen !== undefined) store = await reopen(store)
      }

      test('has everything it had', async () => {
        const [a, b, c] = (await saved(admitted(), admitted(), admitted({ queue: 'other' }))) as [Job, Job, Job]
        await save({
          ...changesOf(claimed(a), cancel(b, momentAt(2), { reason: 'request' })),
          workers: [{ before: null, after: aWorker() }],
          queues: [{ before: null, after: aQueue() }],
          notices: [{ workerId: 'worker-1', notice: aNotice() }],
          types: [{ type: 'email.send', policy: aTypePolicy() }],
          checkpoints: [{ jobId: a.id, checkpoint: aCheckpoint(a.id) }],
          docs: [{ before: null, after: aDoc({ wakeAt: at(3) }) }],
          aliveAt: at(5),
          outages: { before: [], after: [{ from: at(1), to: at(2) }] },
        })
        await remove(c)
        const all = async () => ({
          jobs: await store.jobs(ANY, null, FIRST_PAGE),
          counts: await store.counts(),
          workers: await store.workers(),
          queues: await store.queues(),
          types: await store.types(),
          checkpoint: await store.checkpoint(a.id),
          docs: await store.docsAfter(null, 9),
          notices: await within(store, (tx) => tx.findNotices(['worker-1'], 9)),
          life: await store.life(),
          events: await store.eventsAfter(0, 100),
          bounds: await store.eventBounds(),
          purged: await store.wasPurged(c.id),
          wakeAt: await store.nextWakeAt(),
        })
        const before = await all()
        await again()
        expect(await all()).toEqual(before)
      })

      test('goes on numbering where it stopped, though the last rows are gone', async () => {
        const [a, b] = (await saved(admitted(), admitted())) as [Job, Job]
        await remove(b)
        await again()
        const [told] = await save(changes({ events: [anEvent()] }))
        expect(told?.sequence).toBe(3)
        const c = await savedOne(admitted())
        expect(c.seq).toBeGreaterThan(b.seq)
        await remove(c)
        await again()
        const d = await savedOne(admitted())
        expect(d.seq).toBeGreaterThan(c.seq)
        expect(await claimableIds()).toEqual([a.id, d.id])
      })
    })
  })
}

// ---- Help ----

/** Some of a job's fields, often one alone: a store may have a shorter way for what usually changes. */
const someFields = fc.oneof(
  fc.constantFrom(...FIELDS).map((field) => [field]),
  fc.subarray([...FIELDS]),
  fc.constant([...FIELDS]),
)

function pick(job: Job, fields: readonly (keyof Job)[]): Partial<Job> {
  return Object.fromEntries(fields.map((field) => [field, job[field]]))
}

const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id)

const byQueue = (counts: readonly { queue: string; count: number }[]): Record<string, number> =>
  Object.fromEntries(counts.map(({ queue, count }) => [queue, count]))

function storedEvent(sequence: number): StoredEvent {
  const { type, subject, queue, jobType } = anEvent()
  return { sequence, type, at: at(sequence), subject, queue, jobType, data: `{"n":${String(sequence)}.0}` }
}

/** Read in pages of two, so that every page but the last is followed by another. */
async function everythingIn(store: Store): Promise<Batch> {
  const all = async <Row, Cursor>(
    page: (after: Cursor, limit: number) => Promise<Row[]>,
    first: Cursor,
    cursorOf: (row: Row) => Cursor,
  ): Promise<Row[]> => {
    const found: Row[] = []
    for (let after = first; ;) {
      const rows = await page(after, 2)
      expect(rows.length).toBeLessThanOrEqual(2)
      const last = rows.at(-1)
      if (last === undefined) return found
      found.push(...rows)
      after = cursorOf(last)
    }
  }
  const notices = await all(
    (after: number, limit) => store.noticesAfter(after, limit),
    0,
    ({ place }) => place,
  )
  const tombstones = await all(
    (after: number, limit) => store.tombstonesAfter(after, limit),
    0,
    ({ place }) => place,
  )
  return {
    queues: await store.queues(),
    types: await store.types(),
    workers: await store.workers(),
    notices: notices.map(({ workerId, notice }) => ({ workerId, notice })),
    jobs: await all(
      (after: string | null, limit) => store.jobsAfter(after, limit),
      null,
      ({ id }) => id,
    ),
    checkpoints: await all(
      (after: string | null, n) => store.checkpointsAfter(after, n),
      null,
      ({ jobId }) => jobId,
    ),
    docs: await all(
      (after: DocName | null, n) => store.docsAfter(after, n),
      null,
      ({ kind, id }) => ({ kind, id }),
    ),
    tombstones: tombstones.map(({ id }) => id),
    events: await all(
      (after: number, limit) => store.eventsAfter(after, limit),
      0,
      ({ sequence }) => sequence,
    ),
    inbox: await all(
      (after: number, limit) => store.inboxAfter(after, limit),
      0,
      ({ place }) => place,
    ),
    refused: await all(
      (after: number, limit) => store.refusedAfter(after, limit),
      0,
      ({ place }) => place,
    ),
    life: await store.life(),
  }
}

async function theJob(store: Store, id: string): Promise<Job> {
  const job = await store.job(id)
  if (job === null) throw new Error(`there is no job ${id}`)
  return job
}

/** Something that may happen next, chosen by a number. */
async function anyStep(
  store: Store,
  ids: string[],
  choice: number,
  ms: number,
): Promise<{ before: Job | null; job: Job | null; events: Step['events'] } | null> {
  const id = ids[choice % (ids.length + 1)]
  const job = id === undefined ? null : await store.job(id)
  const moment = momentAt(ms * 1_000)
  if (job === null) {
    const retry = {
      ...DEFAULT_RETRY,
      maxAttempts: 1 + (choice % 2),
      onExhaustion: choice % 3 === 0 ? ('dead_letter' as const) : ('discard' as const),
    }
    const step = admitted({ queue: `queue-${String(choice % 3)}`, retry, pending: choice % 5 === 0 }, ms * 1_000)
    ids.push(step.job.id)
    return step
  }
  switch (job.state) {
    case 'pending':
      return activate(job, moment)
    case 'available':
      return claimed(job, 'worker-1', ms * 1_000)
    case 'active':
      return choice % 3 === 0 ? complete(job, null, moment) : fail(job, { type: 'boom', message: 'no' }, moment)
    case 'retryable':
      return choice % 2 === 0 ? cancel(job, moment, { reason: 'request' }) : release(job, moment)
    case 'discarded':
      return choice % 2 === 0 ? retryByHand(job, job, moment) : { before: job, job: null, events: [] }
    case 'completed':
    case 'cancelled':
    case 'scheduled':
      return { before: job, job: null, events: [] }
  }
}

async function expectCountsToAgree(store: Store): Promise<void> {
  const { jobs } = await store.jobs(ANY, null, { limit: 1_000, offset: 0 })
  for (const [queue, counts] of await store.counts()) {
    for (const state of JOB_STATES) {
      const listed = jobs.filter((job) => job.queue === queue && job.state === state).length
      expect([queue, state, counts[state]]).toEqual([queue, state, listed])
    }
  }
  for (const { queue, count } of await store.deadLetterCounts()) {
    expect([queue, count]).toEqual([queue, jobs.filter((job) => job.queue === queue && job.deadLetter).length])
  }
  const dead = await store.deadLetters({ queue: null, type: null }, { limit: 1_000, offset: 0 })
  expect([dead.total, dead.jobs.length]).toEqual([jobs.filter((job) => job.deadLetter).length, dead.total])
}
