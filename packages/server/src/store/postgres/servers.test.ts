/** Many servers on one schema: what they share, what they fight for, and what becomes of it when one of them is lost. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Client } from 'pg'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Job, type NewEvent } from '@curfew/core'
import { aDoc, admitted, anEvent, at, aWorker, changes, changesOf, claimable, claimed } from '../builders.suite.ts'
import { saveIn, within } from '../builders.suite.ts'
import { NO_CHANGES, NOTHING, RowsMoved, StoreUnavailable } from '../store.ts'
import type { News, Store, StoredEvent, Transaction } from '../store.ts'
import { openBench, until } from './bench.suite.ts'
import { MOST_NAMES } from './transaction.ts'

const bench = await openBench()

let schema: string
let a: Store
let b: Store
beforeEach(async () => {
  schema = bench.newSchema()
  a = await bench.open(schema)
  b = await bench.open(schema)
  return async () => {
    await Promise.all([a.close(), b.close()])
  }
})

const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id)

async function someJobs(n: number, given: Parameters<typeof admitted>[0] = {}): Promise<Job[]> {
  const steps = Array.from({ length: n }, () => admitted(given))
  await saveIn(a, changesOf(...steps))
  return within(a, (tx) => tx.findJobs(steps.map(({ job }) => job.id)))
}

/** A transaction that stays open after `work` until the test ends it. */
async function holding<T>(store: Store, work: (tx: Transaction) => Promise<T>) {
  const opened = gate()
  const done = gate<T>()
  const ended = store
    .transaction(async (tx) => {
      done.resolve(await work(tx))
      await opened.promise
      return { value: null, changes: NO_CHANGES }
    })
    .then(
      () => null,
      (error: unknown) => {
        done.reject(error)
        return error
      },
    )
  const found = await done.promise
  return {
    found,
    end: async (): Promise<unknown> => {
      opened.resolve()
      return ended
    },
  }
}

describe('two servers', () => {
  test('share what is to be claimed, without overlap and without waiting', async () => {
    const jobs = await someJobs(6)
    const first = await holding(a, (tx) => tx.findClaimable(claimable('default', 3)))
    const second = await holding(b, (tx) => tx.findClaimable(claimable('default', 3)))
    expect(idsOf(first.found)).toEqual(idsOf(jobs.slice(0, 3)))
    expect(idsOf(second.found)).toEqual(idsOf(jobs.slice(3)))
    expect([await first.end(), await second.end()]).toEqual([null, null])
  })

  test('never claim the same job, however many claims there are at once', async () => {
    await someJobs(60)
    const claim = (store: Store) =>
      store.transaction(async (tx) => {
        const found = await tx.findClaimable(claimable('default', 4))
        return { value: idsOf(found), changes: changesOf(...found.map((job) => claimed(job))) }
      })
    const claims = await Promise.all(Array.from({ length: 20 }, (_, n) => claim(n % 2 === 0 ? a : b)))
    const all = claims.flatMap(({ value }) => value)
    expect(new Set(all).size).toBe(all.length)
    expect((await a.counts()).get('default')).toMatchObject({ available: 60 - all.length, active: all.length })
    expect((await b.counts()).get('default')).toEqual((await a.counts()).get('default'))
  })

  test('share what is due, jobs and workers', async () => {
    const due = await someJobs(2, { scheduledAt: at(5) })
    const workers = ['w1', 'w2'].map((id) => ({ before: null, after: aWorker({ id, wakeAt: at(5) }) }))
    await saveIn(a, changes({ workers }))
    const first = await holding(a, async (tx) => [await tx.findDueJobs(at(9), 1), await tx.findDueWorkers(at(9), 1)])
    const second = await holding(b, async (tx) => [await tx.findDueJobs(at(9), 9), await tx.findDueWorkers(at(9), 9)])
    expect([...first.found, ...second.found].map(idsOf)).toHaveLength(4)
    expect([...first.found, ...second.found].flatMap(idsOf).sort()).toEqual([...idsOf(due), 'w1', 'w2'].sort())
    await first.end()
    await second.end()
  })

  test('wait for each other for what they find by name, and then find it as it has become', async () => {
    const [job] = (await someJobs(1)) as [Job]
    const order: string[] = []
    const opened = gate()
    const first = a.transaction(async (tx) => {
      const [found] = (await tx.findJobs([job.id])) as [Job]
      order.push('a found it')
      opened.resolve()
      // The other is known to wait, not assumed to.
      await until(
        () => waiting(),
        (n) => n > 0,
      )
      order.push('a ends')
      return { value: null, changes: changesOf(claimed(found)) }
    })
    await opened.promise
    const [found] = (await within(b, (tx) => tx.findJobs([job.id]))) as [Job]
    order.push('b found it')
    await first
    expect([found.state, found.version]).toEqual(['active', 2])
    expect(order).toEqual(['a found it', 'a ends', 'b found it'])
  })

  test('are told when what they had only seen has moved on', async () => {
    const [job] = (await someJobs(1)) as [Job]
    const late = a.transaction(async (tx) => {
      const [seen] = (await tx.seeJobs([job.id])) as [Job]
      await saveIn(b, changesOf(claimed(seen, 'worker-b')))
      return { value: null, changes: changesOf(claimed(seen, 'worker-a'), admitted({ queue: 'lost' })) }
    })
    await expect(late).rejects.toThrow(`another server was faster: job ${job.id}`)
    expect((await a.job(job.id))?.hold?.workerId).toBe('worker-b')
    expect((await a.counts()).has('lost')).toBe(false)
  })

  test('cannot both add the same job', async () => {
    const step = admitted()
    const both = await Promise.allSettled([saveIn(a, changesOf(step)), saveIn(b, changesOf(step))])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const lost = both.find((result) => result.status === 'rejected')
    expect(lost?.reason).toBeInstanceOf(RowsMoved)
    expect((await a.counts()).get('default')?.available).toBe(1)
  })

  test('that wait for each other in a circle are told apart: one goes on, one tries again', async () => {
    const [x, y] = idsOf(await someJobs(2)) as [string, string]
    const gates = [gate(), gate()] as const
    const circle = (store: Store, mine: string, theirs: string, n: 0 | 1) =>
      within(store, async (tx) => {
        await tx.findJobs([mine])
        gates[n].resolve()
        await gates[n === 0 ? 1 : 0].promise
        return tx.findJobs([theirs])
      })
    const both = await Promise.allSettled([circle(a, x, y, 0), circle(b, y, x, 1)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(both.find((result) => result.status === 'rejected')?.reason).toBeInstanceOf(RowsMoved)
  })

  test('give places in one order, from whichever server', async () => {
    const ids: string[] = []
    for (let n = 0; n < 10; n++) {
      const step = admitted()
      await saveIn(n % 3 === 0 ? a : b, changesOf(step))
      ids.push(step.job.id)
    }
    expect(idsOf(await within(a, (tx) => tx.findClaimable(claimable('default', 99))))).toEqual(ids)
  })

  test('give places in the order of the changes, of whatever kind these are', async () => {
    const [x, y] = (await someJobs(2)) as [Job, Job]
    const back = (before: Job, more: Partial<Job> = {}) => ({
      before,
      job: { ...before, seq: -1, ...more },
      events: [],
    })
    const [p, q] = [admitted(), admitted()]
    await saveIn(a, changesOf(p, back(y), q, back(x, { priority: 0, interruptions: 1 })))
    const order = idsOf(await within(a, (tx) => tx.findClaimable(claimable('default', 99))))
    expect(order).toEqual([p.job.id, y.id, q.job.id, x.id])
  })

  test('read each other’s shared texts', async () => {
    const retry = { ...admitted().job.retry, maxAttempts: 77 }
    // From when a text came the second time it is shared as soon as the table has it.
    const rows = await until(
      async () => {
        await saveIn(a, changesOf(admitted({ retry: { ...retry } })))
        return bench.ask<{ retry: string }>(`SELECT retry FROM ${schema}.jobs ORDER BY seq`)
      },
      (found) => /^\d+$/.test(found.at(-1)?.retry ?? ''),
    )
    expect(rows[0]?.retry).toBe(JSON.stringify(retry))
    const found = await within(b, (tx) => tx.findClaimable(claimable('default', 999)))
    expect(found.map((job) => job.retry)).toEqual(rows.map(() => retry))
  })
})

/** Whether the second has to wait for the first to end, and what it then has. */
async function waitsFor<T>(first: Awaited<ReturnType<typeof holding>>, second: () => Promise<T>): Promise<T> {
  let isOver = false
  const waited = second().finally(() => (isOver = true))
  await until(waiting, (n) => n > 0)
  expect(isOver).toBe(false)
  expect(await first.end()).toBeNull()
  return waited
}

describe('a name', () => {
  test('that one server has locked is waited for, and others are not', async () => {
    const first = await holding(a, (tx) => tx.lockNames(['unique/a', 'unique/b']))
    await within(b, (tx) => tx.lockNames(['unique/c']))
    await waitsFor(first, () => within(b, (tx) => tx.lockNames(['unique/c', 'unique/b'])))
  })

  test('is free again when its transaction has failed', async () => {
    const failed = within(a, async (tx) => {
      await tx.lockNames(['a'])
      throw new Error('changed my mind')
    })
    await expect(failed).rejects.toThrow('changed my mind')
    await within(b, (tx) => tx.lockNames(['a']))
  })

  test('is another one in another schema', async () => {
    const elsewhere = await bench.open(bench.newSchema())
    const first = await holding(a, (tx) => tx.lockNames(['a']))
    await within(elsewhere, (tx) => tx.lockNames(['a']))
    await first.end()
  })

  test('is locked with all others by a command that asks for very many', async () => {
    const many = Array.from({ length: MOST_NAMES }, (_, n) => String(n))
    const first = await holding(a, (tx) => tx.lockNames(many))
    await within(b, (tx) => tx.lockNames(['other']))
    await first.end()
    const second = await holding(a, async (tx) => {
      await tx.lockNames(many)
      await tx.lockNames(['one more'])
    })
    await waitsFor(second, () => within(b, (tx) => tx.lockNames(['other'])))
    const third = await holding(b, (tx) => tx.lockNames(['other']))
    await waitsFor(third, () => within(a, (tx) => tx.lockNames([...many, 'one more'])))
  })

  test('lets a command that had to wait for it see what was decided meanwhile', async () => {
    const first = await holding(a, async (tx) => {
      await tx.lockNames(['unique/u'])
      await tx.save(changesOf(admitted({ uniqueKey: 'u', limitKey: 'l' })))
      const [job] = (await tx.findUnique('u', ['available'], 1)) as [Job]
      await tx.save(changesOf(claimed(job)))
    })
    const seen = () =>
      within(b, async (tx) => {
        const [, unique, limited, counts] = await Promise.all([
          tx.lockNames(['unique/u']),
          tx.findUnique('u', ['active'], 9),
          tx.seeLimited(['l']),
          tx.seeCounts(['default']),
        ])
        return [unique.length, limited.get('l'), counts.get('default')?.active]
      })
    expect(await waitsFor(first, seen)).toEqual([1, 1, 1])
  })

  test('of which each waits for the other’s lets one go on, and one try again', async () => {
    const gates = [gate(), gate()] as const
    const circle = (store: Store, mine: string, theirs: string, n: 0 | 1) =>
      within(store, async (tx) => {
        await tx.lockNames([mine])
        gates[n].resolve()
        await gates[n === 0 ? 1 : 0].promise
        await tx.lockNames([theirs])
      })
    const both = await Promise.allSettled([circle(a, 'x', 'y', 0), circle(b, 'y', 'x', 1)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(both.find((result) => result.status === 'rejected')?.reason).toBeInstanceOf(RowsMoved)
  })
})

describe('a document', () => {
  const [x, y] = [aDoc({ id: 'x', wakeAt: at(5) }), aDoc({ id: 'y', wakeAt: at(6) })]
  beforeEach(async () => {
    await saveIn(a, changes({ docs: [x, y].map((after) => ({ before: null, after })) }))
  })

  test('that is due is skipped by one server while another has it', async () => {
    const first = await holding(a, (tx) => tx.findDueDocs(at(9), 1))
    const second = await holding(b, (tx) => tx.findDueDocs(at(9), 9))
    expect([first.found, second.found]).toEqual([[x], [y]])
    expect([await first.end(), await second.end()]).toEqual([null, null])
    const named = await holding(a, (tx) => tx.findDocs([x]))
    expect(await within(b, (tx) => tx.findDueDocs(at(9), 9))).toEqual([y])
    await named.end()
  })

  test('that is found by name is waited for, and then found as it has become', async () => {
    const first = await holding(a, async (tx) => {
      await tx.findDocs([y, x])
      await tx.save(changes({ docs: [{ before: x, after: { ...x, body: '2' } }] }))
    })
    expect(await within(b, (tx) => tx.seeDocs([x]))).toEqual([x])
    expect(await within(b, (tx) => tx.seeDocsUnder('cron', '', null, 9))).toEqual([x, y])
    const found = await waitsFor(first, () => within(b, (tx) => tx.findDocs([x])))
    expect(found).toEqual([{ ...x, body: '2', version: 2 }])
  })

  test('that was only seen, and has moved on, is not saved over', async () => {
    const late = a.transaction(async (tx) => {
      const [seen = null] = await tx.seeDocs([x])
      await saveIn(b, changes({ docs: [{ before: x, after: { ...x, body: '2' } }] }))
      return { value: null, changes: { ...changesOf(admitted()), docs: [{ before: seen, after: x }] } }
    })
    await expect(late).rejects.toThrow('another server was faster: doc cron, x is gone or no longer in the version')
    expect([await b.doc('cron', 'x'), (await b.sizes()).jobs]).toEqual([{ ...x, body: '2', version: 2 }, 0])
  })

  test('cannot be added by both', async () => {
    const docs = ['new', 'newer'].map((id) => ({ before: null, after: aDoc({ id }) }))
    const both = await Promise.allSettled([
      saveIn(a, changes({ docs })),
      saveIn(b, changes({ docs: docs.toReversed() })),
    ])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(both.find((result) => result.status === 'rejected')?.reason).toMatchObject({
      name: 'RowsMoved',
      message: 'another server was faster: doc cron, new is there already',
    })
  })

  test('and a job of which each waits for the other’s let one go on, and one try again', async () => {
    const [job] = (await someJobs(1)) as [Job]
    const gates = [gate(), gate()] as const
    const finds = [(tx: Transaction) => tx.findJobs([job.id]), (tx: Transaction) => tx.findDocs([x])] as const
    const circle = (store: Store, n: 0 | 1) =>
      within(store, async (tx) => {
        const other = n === 0 ? 1 : 0
        await finds[n](tx)
        gates[n].resolve()
        await gates[other].promise
        await finds[other](tx)
      })
    const both = await Promise.allSettled([circle(a, 0), circle(b, 1)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(both.find((result) => result.status === 'rejected')?.reason).toBeInstanceOf(RowsMoved)
  })

  test('that wants to be woken is announced to the other servers', async () => {
    const heard: (News | null)[] = []
    onTestFinished(b.follow((news) => heard.push(news)))
    await saveIn(a, changes({ docs: [{ before: x, after: { ...x, wakeAt: at(3) } }] }))
    // What was told of it before may still be on its way.
    await until(
      () => heard.map((news) => news?.wakeAt),
      (told) => told.includes(at(3)),
    )
  })
})

describe('what is found by order', () => {
  test('is shared by deadline, without overlap and without waiting', async () => {
    const jobs = [7, null, 3, 5, null, 1].map((ms) => ({ ...admitted().job, wakeAt: ms === null ? null : at(ms) }))
    await saveIn(a, changes({ jobs: jobs.map((after) => ({ before: null, after })) }))
    const asked = claimable('default', 3, { order: 'edf' })
    const first = await holding(a, (tx) => tx.findClaimable(asked))
    const second = await holding(b, (tx) => tx.findClaimable(asked))
    expect(first.found.map(({ wakeAt }) => wakeAt)).toEqual([at(1), at(3), at(5)])
    expect(second.found.map(({ wakeAt }) => wakeAt)).toEqual([at(7), null, null])
    await first.end()
    await second.end()
  })

  test('is shared by age, without overlap and without waiting', async () => {
    const jobs = [...(await someJobs(3, { priority: 1 })), ...(await someJobs(3, { priority: 2 }))]
    const first = await holding(a, (tx) => tx.findOldestAvailable('default', 1))
    const second = await holding(b, (tx) => tx.findOldestAvailable('default', 9))
    expect(idsOf(first.found)).toEqual(idsOf(jobs.slice(0, 1)))
    // One of the other priority was looked at, and is not to be had either.
    expect(idsOf(second.found)).toEqual(idsOf([...jobs.slice(1, 3), ...jobs.slice(4)]))
    await first.end()
    await second.end()
  })
})

describe('the log', () => {
  test('is in the order of the commits, without a gap, and no reader misses an event', async () => {
    const servers = [a, b, await bench.open(schema)]
    const total = 90
    const read: number[] = []
    const reader = (async () => {
      while (read.length < total) {
        for (const { sequence } of await b.eventsAfter(read.at(-1) ?? 0, 7)) read.push(sequence)
      }
    })()
    await Promise.all(
      servers.map(async (store, s) => {
        for (let n = 0; n < 10; n++) {
          const told = await saveIn(store, {
            ...changesOf(admitted({ queue: `q${String(s)}` })),
            events: [anEvent(), anEvent(), anEvent()],
          })
          expect(told.map(({ sequence }) => sequence - (told[0]?.sequence ?? 0))).toEqual([0, 1, 2])
        }
      }),
    )
    await reader
    expect(read).toEqual(Array.from({ length: total }, (_, n) => n + 1))
  })

  test('gives the events of a save in the middle with those of the end, in their order', async () => {
    const { events } = await a.transaction(async (tx) => {
      await tx.save(changes({ events: [anEvent({ subject: '1' }), anEvent({ subject: '2' })] }))
      await tx.findClaimable(claimable('default', 1))
      return { value: null, changes: changes({ events: [anEvent({ subject: '3' })] }) }
    })
    expect(events.map(({ sequence, subject }) => [sequence, subject])).toEqual([
      [1, '1'],
      [2, '2'],
      [3, '3'],
    ])
    expect(await b.eventsAfter(0, 9)).toEqual(events)
  })

  test('does not keep one server waiting for another that has only saved in the middle', async () => {
    const first = await holding(a, async (tx) => {
      await tx.save(changesOf(admitted()))
      await tx.seeQueues(['default'])
    })
    expect(await saveIn(b, changesOf(admitted()))).toHaveLength(1)
    expect(await first.end()).toBeNull()
    expect(await a.eventBounds()).toEqual({ first: 1, last: 2 })
  })
})

describe('news', () => {
  const newsFor = (store: Store): (News | null)[] => {
    const heard: (News | null)[] = []
    onTestFinished(store.follow((news) => heard.push(news)))
    return heard
  }

  test('of a commit reach the other servers, and not the one that committed', async () => {
    const [mine, theirs] = [newsFor(a), newsFor(b)]
    const step = admitted({ scheduledAt: at(50) })
    const live: NewEvent = anEvent({ type: 'job.progress', subject: 'w\ud800', data: { text: 'a\u0000"' } })
    const workers = [{ before: null, after: aWorker({ wakeAt: at(40) }) }]
    await saveIn(a, { ...changesOf(step), live: [live], workers, orders: ['w\ud800', 'w\ud800'] })
    await until(
      () => theirs.length,
      (n) => n > 0,
    )
    const { id, queue, type } = step.job
    const told = { id, queue, type, from: null, to: 'scheduled', tenant: null }
    expect(theirs).toEqual([
      { changes: [told], live: [live], orders: ['w\ud800'], lastEvent: 1, wakeAt: at(40), inbox: false },
    ])
    expect(mine).toEqual([])
  })

  test('of what was rolled back are not sent', async () => {
    const theirs = newsFor(b)
    await within(a, async (tx) => {
      await tx.save(changesOf(admitted({ queue: 'lost' })))
      throw new Error('changed my mind')
    }).catch(() => {})
    await saveIn(a, changesOf(admitted({ queue: 'kept' })))
    await until(
      () => theirs.length,
      (n) => n > 0,
    )
    expect(theirs.map((news) => news?.changes.map(({ queue }) => queue))).toEqual([['kept']])
  })

  test('of a large commit come in pieces, all of them', async () => {
    const theirs = newsFor(b)
    const steps = Array.from({ length: 1_000 }, (_, n) => admitted({ queue: `q${String(n % 3)}` }))
    const huge = anEvent({ data: { text: 'x'.repeat(9_000) } })
    await saveIn(a, { ...changesOf(...steps), live: [huge, anEvent({ subject: 'small' })] })
    await until(
      () => theirs.at(-1)?.lastEvent ?? 0,
      (last) => last === 1_000,
    )
    const ids = theirs.flatMap((news) => news?.changes.map(({ id }) => id) ?? [])
    expect(ids.sort()).toEqual(steps.map(({ job }) => job.id).sort())
    expect(theirs.flatMap((news) => news?.live ?? []).map(({ subject }) => subject)).toEqual(['small'])
  })

  test('may have been missed when the line was lost, and go on', async () => {
    const theirs = newsFor(b)
    await terminate('LISTEN', 'clock_timestamp')
    await until(
      () => theirs.length,
      (n) => n > 0,
    )
    expect(theirs[0]).toBeNull()
    await saveIn(a, changesOf(admitted()))
    await until(
      () => theirs.at(-1)?.lastEvent ?? 0,
      (last) => last === 1,
    )
  })
})

describe('a transaction that says nothing', () => {
  let hasty: Store
  beforeEach(async () => {
    hasty = await bench.open(schema, undefined, undefined, 300)
  })

  /** For how long sessions of this test have been silent within a transaction. */
  const silences = async (): Promise<number[]> => {
    const rows = await bench.ask<{ ms: string }>(
      `SELECT extract(epoch FROM clock_timestamp() - state_change) * 1000 AS ms
       FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle in transaction'`,
      [schema],
    )
    return rows.map(({ ms }) => Number(ms))
  }

  test('holds nothing for long, and the server that stood still decides again', { timeout: 10_000 }, async () => {
    const [job] = (await someJobs(1)) as [Job]
    const stopped = await holding(hasty, (tx) => tx.findJobs([job.id]))
    expect(idsOf(await within(b, (tx) => tx.findJobs([job.id])))).toEqual([job.id])
    const error = await stopped.end()
    expect(error).toBeInstanceOf(RowsMoved)
    expect(String(error)).toContain('idle for too long')
    expect(idsOf(await within(hasty, (tx) => tx.findJobs([job.id])))).toEqual([job.id])
  })

  const deciding = (job: Job, isDecided: (silent: number[]) => boolean) =>
    hasty.transaction(async (tx) => {
      await tx.findJobs([job.id])
      await until(silences, isDecided)
      return { value: null, changes: changes({ events: [anEvent()] }) }
    })
  const untilEnded = (silent: number[]): boolean => silent.length === 0

  test('because it has much to decide gets more time when it was tried twice', { timeout: 10_000 }, async () => {
    const [job] = (await someJobs(1)) as [Job]
    await expect(deciding(job, untilEnded)).rejects.toBeInstanceOf(RowsMoved)
    await expect(deciding(job, untilEnded)).rejects.toBeInstanceOf(RowsMoved)
    const patient = deciding(job, (silent) => silent.some((ms) => ms > 400))
    expect((await patient).events).toHaveLength(1)
  })

  test('because its server stood still gets no more time the second time', { timeout: 10_000 }, async () => {
    const [job] = (await someJobs(1)) as [Job]
    const longest: number[] = []
    const untilGone = (silent: number[]): boolean => {
      longest.push(...silent)
      return silent.length === 0
    }
    await expect(deciding(job, untilEnded)).rejects.toBeInstanceOf(RowsMoved)
    await expect(deciding(job, untilGone)).rejects.toBeInstanceOf(RowsMoved)
    expect(Math.max(...longest)).toBeLessThan(1_000)
  })
})

describe('a server that no longer takes what the database sends', () => {
  test('holds nothing for longer than others wait for a lock', { timeout: 30_000 }, async () => {
    // More than lies between the two.
    const jobs = await someJobs(8, { body: `"args":["${'x'.repeat(1_000_000)}"]` })
    const proxy = await openProxy()
    const stopped = await bench.open(schema, undefined, proxy.url)
    await within(stopped, (tx) => tx.findJobs([]))
    const work = stopped.transaction(async (tx) => {
      proxy.stopReading()
      return { value: await tx.findJobs(idsOf(jobs)), changes: NO_CHANGES }
    })
    work.catch(() => {})
    await until(
      () =>
        bench.ask(`SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'ClientWrite'`, [schema]),
      (sessions) => sessions.length > 0,
    )
    expect(idsOf(await within(b, (tx) => tx.findJobs(idsOf(jobs))))).toEqual(idsOf(jobs))
    proxy.drop()
    await stopped.close()
  })
})

describe('a connection that is lost', () => {
  test('in the middle of a transaction ends it, and the next one has a fresh one', async () => {
    const [job] = (await someJobs(1)) as [Job]
    const work = a.transaction(async (tx) => {
      const [found] = (await tx.findJobs([job.id])) as [Job]
      await tx.save(changesOf(claimed(found)))
      await terminate()
      return { value: null, changes: changesOf(admitted({ queue: 'lost' })) }
    })
    const error = await work.then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(StoreUnavailable)
    expect(String(error)).not.toContain('unknown')
    expect(
      await until(
        () => a.job(job.id).catch(() => null),
        (found) => found !== null,
      ),
    ).toEqual(job)
    await saveIn(a, changesOf(claimed(job)))
    expect(
      (
        await until(
          () => b.job(job.id).catch(() => null),
          (found) => found !== null,
        )
      )?.state,
    ).toBe('active')
  })

  test('while it was idle is not noticed by anybody', async () => {
    await a.counts()
    const pids = async (): Promise<number[]> => {
      const rows = await bench.ask<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE application_name = $1', [
        schema,
      ])
      return rows.map(({ pid }) => pid)
    }
    const before = await pids()
    await terminate()
    // The old ones are gone, and both lines are back.
    await until(pids, (now) => now.length >= 2 && now.every((pid) => !before.includes(pid)))
    expect(await saveIn(a, changesOf(admitted()))).toHaveLength(1)
    expect((await a.counts()).get('default')?.available).toBe(1)
  })

  test('while committing leaves the outcome unknown, and says so', async () => {
    const proxy = await openProxy()
    const c = await bench.open(schema, undefined, proxy.url)
    const step = admitted()
    await within(c, (tx) => tx.findJobs([]))
    const work = c.transaction(async () => {
      proxy.swallowAnswers()
      return { value: null, changes: changesOf(step) }
    })
    work.catch(() => {})
    await until(
      () => a.job(step.job.id),
      (job) => job !== null,
    )
    proxy.drop()
    const error = await work.then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(StoreUnavailable)
    expect(String(error)).toContain('the outcome is unknown')
    expect(
      (
        await until(
          () => c.job(step.job.id).catch(() => null),
          (job) => job !== null,
        )
      )?.id,
    ).toBe(step.job.id)
    await c.close()
  })

  test('is no matter of the process: a database that was restarted is simply used again', async () => {
    if (bench.cluster === null) return
    const step = admitted()
    await saveIn(a, changesOf(step))
    await bench.cluster.stop('immediate')
    await expect(saveIn(a, changesOf(admitted()))).rejects.toBeInstanceOf(StoreUnavailable)
    await expect(a.job(step.job.id)).rejects.toBeInstanceOf(StoreUnavailable)
    await expect(a.ping()).rejects.toBeInstanceOf(StoreUnavailable)
    await bench.cluster.start()
    expect((await a.job(step.job.id))?.id).toBe(step.job.id)
    await until(
      () => saveIn(a, changesOf(admitted())).catch(() => null),
      (told) => told !== null,
    )
  })
})

describe('a database that may only be read', () => {
  test('is recognised, and used again when it may be written to', async () => {
    if (bench.cluster === null) return
    await setReadOnly('on')
    onTestFinished(() => setReadOnly('off'))
    await expect(a.ping()).rejects.toThrow('read-only')
    await expect(saveIn(a, changesOf(admitted()))).rejects.toThrow('the database is read-only')
    expect(await a.queues()).toEqual([])
    await setReadOnly('off')
    await a.ping()
    expect(await saveIn(a, changesOf(admitted()))).toHaveLength(1)
  })
})

describe('round trips', () => {
  test('are two for a transaction, and three with a search by order in between', async () => {
    const proxy = await openProxy()
    const c = await bench.open(schema, undefined, proxy.url)
    const [job] = (await someJobs(5)) as [Job]
    const twice = async () => {
      await c.transaction(async (tx) => {
        const [[found]] = (await Promise.all([
          tx.findJobs([job.id]),
          tx.seeQueues(['default']),
          tx.seeTypes(['email.send']),
        ])) as unknown as [[Job]]
        return {
          value: null,
          changes: changesOf({ before: found, job: { ...found, attempt: 7 }, events: [anEvent()] }),
        }
      })
    }
    const thrice = async () => {
      await c.transaction(async (tx) => {
        await tx.seeQueues(['default'])
        await tx.save(changesOf(admitted()))
        const [found] = (await tx.findClaimable(claimable('default', 1))) as [Job]
        return { value: null, changes: changesOf(claimed(found)) }
      })
    }
    await twice()
    expect(await proxy.turnsDuring(twice)).toBe(2)
    await thrice()
    expect(await proxy.turnsDuring(thrice)).toBe(3)
    expect(await proxy.turnsDuring(() => within(c, () => Promise.resolve()))).toBe(1) // for the next wake
    await c.close()
  })
})

describe('a restore', () => {
  const job = (seq: number): Job => ({ ...admitted().job, seq, version: 1 })
  const event: StoredEvent = { ...anEvent({ at: at(1) }), sequence: 3, data: '{}' }

  test('is not announced, but counts on every server', async () => {
    const heard: (News | null)[] = []
    b.follow((news) => heard.push(news))
    await a.restore({ ...NOTHING, jobs: [job(5), job(9)], events: [event] }, true)
    expect(await b.isHalfRestored()).toBe(true)
    expect((await b.counts()).get('default')?.available).toBe(2)
    const step = admitted()
    const [next] = await saveIn(b, { ...changesOf(step), events: [anEvent()] })
    expect([next?.sequence, (await a.job(step.job.id))?.seq]).toEqual([4, 10])
    await saveIn(a, changes({ events: [anEvent()] }))
    await until(
      () => heard.length,
      (n) => n > 0,
    )
    expect(heard.map((news) => news?.lastEvent)).toEqual([5])
  })

  test('at the very first place leaves the second to the next', async () => {
    await a.restore({ ...NOTHING, jobs: [job(1)] }, false)
    const step = admitted()
    await saveIn(b, changesOf(step))
    expect((await b.job(step.job.id))?.seq).toBe(2)
  })

  test('that cannot be undone is still known to be a part', { timeout: 15_000 }, async () => {
    await a.restore({ ...NOTHING, jobs: [job(1)] }, true)
    const operator = new Client({ connectionString: bench.url })
    await operator.connect()
    await operator.query(`BEGIN; LOCK TABLE ${schema}.jobs IN ROW SHARE MODE`)
    await expect(a.reset()).rejects.toThrow('a lock could not be acquired in time')
    await operator.end()
    expect([await a.isHalfRestored(), (await a.sizes()).jobs]).toEqual([true, 1])
    await a.reset()
    expect([await a.isHalfRestored(), (await a.sizes()).jobs]).toEqual([false, 0])
  })
})

describe('counts', () => {
  test('are exact though each server adds in a slot of its own', async () => {
    const third = await bench.open(schema)
    const stores = [a, b, third, a, b, third]
    const steps = await Promise.all(
      stores.map(async (store) => {
        const [x, y] = [admitted(), admitted()]
        await saveIn(store, changesOf(x, y))
        return y.job
      }),
    )
    await Promise.all(
      steps.map((job, n) =>
        within(stores[n + 1] ?? a, async (tx) => {
          await tx.save(changesOf(...(await tx.findJobs([job.id])).map((found) => claimed(found))))
        }),
      ),
    )
    for (const store of stores) expect((await store.counts()).get('default')).toMatchObject({ available: 6, active: 6 })
  })
})

// ---- Help ----

interface Gate<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
}

function gate<T = void>(): Gate<T> {
  let made: Omit<Gate<T>, 'promise'> | undefined
  const promise = new Promise<T>((resolve, reject) => (made = { resolve, reject }))
  return { promise, ...(made as Omit<Gate<T>, 'promise'>) }
}

/** How many sessions of the schema's servers wait for a lock. Here a server's sessions are named after the schema. */
async function waiting(): Promise<number> {
  const rows = await bench.ask<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_stat_activity a JOIN pg_locks l USING (pid)
     WHERE NOT l.granted AND a.application_name = $1`,
    [schema],
  )
  return rows[0]?.n ?? 0
}

/** Ends the sessions of all servers; with words, only those whose last statement has one of them. */
async function terminate(...words: string[]): Promise<void> {
  await bench.ask(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE application_name = $1
       AND (cardinality($2::text[]) = 0 OR EXISTS (SELECT FROM unnest($2::text[]) w WHERE query LIKE '%' || w || '%'))`,
    [schema, words],
  )
}

async function setReadOnly(value: 'on' | 'off'): Promise<void> {
  await bench.ask('BEGIN READ WRITE; COMMIT')
  await bench.ask(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
  await bench.ask('SELECT pg_reload_conf()')
  await until(
    () => bench.ask<{ value: string }>(`SELECT current_setting('default_transaction_read_only') AS value`),
    ([row]) => row?.value === value,
  )
}

/** Stands between a server and the database: counts their turns, and can lose or no longer take what the database says. */
async function openProxy() {
  const to = new URL(bench.url)
  const pairs = new Set<[client: Socket, database: Socket]>()
  let swallows = false
  const spoken = new Set<{ last: 'client' | 'database'; turns: number; commits: boolean }>()
  const proxy = createServer((client) => {
    const database = connect(Number(to.port), to.hostname)
    const pair: [Socket, Socket] = [client, database]
    pairs.add(pair)
    const said = { last: 'database' as 'client' | 'database', turns: 0, commits: false }
    spoken.add(said)
    client.on('data', (data) => {
      if (said.last === 'database') said.turns++
      said.last = 'client'
      said.commits ||= data.includes('\0commit\0') // the statement's name
      database.write(data)
    })
    database.on('data', (data) => {
      said.last = 'database'
      if (!swallows) client.write(data)
    })
    const end = (): void => {
      client.destroy()
      database.destroy()
      pairs.delete(pair)
    }
    for (const socket of pair) socket.on('error', end).on('close', end)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => {
    for (const pair of pairs) for (const socket of pair) socket.destroy()
    proxy.close()
  })
  const turns = (): number => [...spoken].filter(({ commits }) => commits).reduce((sum, said) => sum + said.turns, 0)
  const url = new URL(bench.url)
  url.port = String((proxy.address() as AddressInfo).port)
  return {
    url: url.href,
    swallowAnswers: () => (swallows = true),
    stopReading: () => {
      for (const [, database] of pairs) database.pause()
    },
    drop: () => {
      for (const [client] of pairs) client.destroy()
      swallows = false
    },
    /** The turns that were taken on the connection for transactions. */
    async turnsDuring(work: () => Promise<void>): Promise<number> {
      const before = turns()
      await work()
      return turns() - before
    },
  }
}
