/** The inbox where something goes wrong: an entry that breaks the server must not break it for everybody else. */
import { expect, test } from 'vitest'
import type { Changes, News, Store, Transaction } from '../../packages/server/src/store/store.ts'
import { TestServer } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const [POISON, GOOD] = ['01890000-0000-7000-8000-00000000000a', '01890000-0000-7000-8000-00000000000b']

const requestFor = (id: string): string => JSON.stringify({ id, type: 'a', args: [], queue: 'inbox' })

/** A store with an inbox in memory, that cannot bear to save the poison. */
function withInbox(store: Store, ids: Set<string>, bodyOf = requestFor, follow = store.follow.bind(store)): Store {
  const bear = ({ jobs }: Changes): void => {
    if (jobs.some(({ after }) => after?.id === POISON)) throw new Error('a row that cannot be')
  }
  const entries = (): { id: string; body: string }[] => [...ids].map((id) => ({ id, body: bodyOf(id) }))
  const within = (tx: Transaction): Transaction =>
    new Proxy(tx, {
      get(target, name) {
        if (name === 'findInbox') return () => Promise.resolve(entries())
        const value = Reflect.get(target, name) as unknown
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  const transaction: Store['transaction'] = async (work) => {
    let taken: readonly string[] = []
    const ended = await store.transaction(async (tx) => {
      const closing = await work(within(tx))
      bear(closing.changes)
      taken = closing.changes.inbox.map(({ id }) => id)
      return { ...closing, changes: { ...closing.changes, inbox: [] } }
    })
    for (const id of taken) ids.delete(id)
    return ended
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'inbox') return { schema: 'x', channel: 'x_inbox' }
      if (name === 'transaction') return transaction
      if (name === 'follow') return follow
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

test('a row that is announced in the very transaction that looks anyway is refused once', async () => {
  const ids = new Set<string>()
  let hear: (news: News | null) => void = () => {}
  const store = withInbox(
    await openTestStore(),
    ids,
    () => '{',
    (listener) => {
      hear = listener
      return () => {}
    },
  )
  const server = await TestServer.open({ store })
  await server.start({}, { worker_id: 'w' })
  ids.add(GOOD)
  hear({ changes: [], live: [], orders: [], lastEvent: null, wakeAt: null, inbox: true })
  server.clock.advance(5_000)
  await server.advance(0)
  expect(server.logged.map(({ message }) => message)).toEqual(['a job in the inbox was refused'])
})

test('others are served, and it is logged each time', async () => {
  const ids = new Set<string>()
  const server = await TestServer.open({ store: withInbox(await openTestStore(), ids) })
  await server.start({}, { worker_id: 'w' }) // something to watch, so that signs of life are given
  ids.add(POISON).add(GOOD)
  await server.advance(5_000)
  const replies = await Promise.all([1, 2, 3].map(() => server.post('/ojs/v1/jobs', { type: 'a', args: [] })))
  expect(replies.map(({ status }) => status)).toEqual([201, 201, 201])
  expect(await server.job(POISON)).toBeUndefined()
  const { level, message } = server.logged[0] ?? {}
  expect([level, message]).toEqual(['error', 'command failed with an internal error; nothing was changed'])
  ids.delete(POISON)
  await server.advance(5_000)
  expect((await server.job(GOOD)).state).toBe('available')
  expect(ids.size).toBe(0)
})
