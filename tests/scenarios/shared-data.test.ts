/** A server that is not alone with its data: what it hears of the others, and what it does not. */
import { expect, test } from 'vitest'
import { FakeClock, instant } from '@curfew/core'
import type { News, Store } from '../../packages/server/src/store/store.ts'
import { idle, TestServer, type Reply } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const QUIET: News = { changes: [], live: [], orders: [], lastEvent: null, wakeAt: null, inbox: false }

/** The store as one that others write to as well; `hear` brings their news. */
function shared(
  store: Store,
  clock: FakeClock,
  more: Partial<Store> = {},
): { store: Store; hear: (news: News | null) => void } {
  const listeners: ((news: News | null) => void)[] = []
  const own: Partial<Store> = {
    shared: true,
    clock: { now: () => clock.now(), offset: () => ({ ms: 0, errorMs: 0 }), distrust: () => null },
    follow: (listener) => {
      listeners.push(listener)
      return () => {}
    },
    ...more,
  }
  const proxy = new Proxy(store, {
    get(target, name) {
      if (name in own) return own[name as keyof Store]
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  return {
    store: proxy,
    hear: (news) => {
      for (const listener of listeners) listener(news)
    },
  }
}

test('it wakes for a deadline that another server has set nearer, and at once when it may have missed some', async () => {
  const clock = new FakeClock()
  const { store, hear } = shared(await openTestStore(), clock)
  await TestServer.open({ store, clock })
  const usual = clock.nextTimerAt() ?? 0
  expect(usual - clock.now()).toBeGreaterThan(500)
  hear({ ...QUIET, wakeAt: instant(usual + 1) })
  expect(clock.nextTimerAt()).toBe(usual)
  hear({ ...QUIET, wakeAt: instant(clock.now() + 120) })
  expect(clock.nextTimerAt()).toBe(clock.now() + 120)
  hear(null)
  expect(clock.nextTimerAt()).toBe(clock.now())
})

test('it does not spin while another server holds what is due', async () => {
  const clock = new FakeClock()
  const inner = await openTestStore()
  let looks = 0
  const { store, hear } = shared(inner, clock, {
    transaction: async (work) => {
      looks += 1
      return { ...(await inner.transaction(work)), nextWakeAt: instant(clock.now() - 1) }
    },
  })
  const server = await TestServer.open({ store, clock })
  hear(null)
  looks = 0
  await server.advance(1_000)
  expect(looks).toBeGreaterThan(5)
  expect(looks).toBeLessThan(30)
})

test('an order that another server has stored reaches the call that is open here', async () => {
  const clock = new FakeClock()
  const inner = await openTestStore()
  const other = await TestServer.open({ store: shared(inner, clock).store, clock })
  const { store, hear } = shared(inner, clock)
  const server = await TestServer.open({ store, clock })
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  const listen = (seq: number, heard: object[] = []): Promise<Reply> =>
    server.post('/ojs/v1/workers/exchange', {
      worker_id: 'w',
      listen: { state: 'running', seq, heard },
      fetch: { queues: ['default'], count: 0, wait_ms: 30_000 },
    })
  const call = listen(1)
  await idle()
  await other.call('DELETE', `/ojs/v1/jobs/${id}`)
  hear({ ...QUIET, orders: ['v'] })
  await idle()
  expect(server.engine.polls.size).toBe(1)
  hear({ ...QUIET, orders: ['w'] })
  expect((await call).body['orders']).toMatchObject({ x_cancel_jobs: [{ job_id: id, reason: 'cancelled' }] })
  const next = listen(2, [{ job_id: id, x_lease: 1 }])
  await idle()
  await other.post('/ojs/v1/admin/workers/w/quiet')
  expect(server.engine.polls.size).toBe(1)
  // It may have missed something.
  hear(null)
  expect((await next).body['orders']).toMatchObject({ state: 'quiet' })
})

test('what another server has stored is over for a reader here as soon as its time is up', async () => {
  const [theirs, ours] = [new FakeClock(), new FakeClock()]
  const inner = await openTestStore()
  const other = await TestServer.open({ store: shared(inner, theirs).store, clock: theirs })
  const server = await TestServer.open({ store: shared(inner, ours).store, clock: ours })
  const id = await other.enqueue({ enqueue_ttl_ms: 300 })
  ours.advance(300)
  expect((await server.job(id)).state).toBe('discarded')
})
