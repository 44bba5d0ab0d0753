/**
 * The store a story runs on: SQLite in memory or, in the project `postgres`, a real PostgreSQL. Stories turn their own
 * clock and are alone with their data, so the store is shown to the engine as one that is not shared.
 *
 * A database answers when it answers. `quiet` waits until every call that was made has been answered and nothing more
 * was asked for since, so that a story can turn its clock knowing that everything before has happened.
 */
import { inject } from 'vitest'
import { days, seededRandom } from '@curfew/core'
import { nodeHost } from '../packages/server/src/host.ts'
import { openPostgresStore } from '../packages/server/src/store/postgres/store.ts'
import { openSqliteStore } from '../packages/server/src/store/sqlite/store.ts'
import { StoreUnavailable, type EventRetention, type Store } from '../packages/server/src/store/store.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where PostgreSQL is, in the project that runs on it. */
    readonly database?: string
  }
}

export const KEPT: EventRetention = { maxAgeMs: days(7), maxCount: 1_000_000 }

/** Whether stories run on PostgreSQL, where each takes about three times as long. */
export const onPostgres = (): boolean => inject('database') !== undefined

export function openTestStore(events: EventRetention = KEPT): Promise<Store> {
  const database = inject('database')
  if (database === undefined) return openSqliteStore({ file: ':memory:', durability: 'full', events })
  return openShelved(database, events)
}

// ---- PostgreSQL ----

/** Making a schema takes longer than emptying one. */
const shelf: Store[] = []
const taken = new Set<Store>()
let schemas = 0

async function openShelved(url: string, events: EventRetention): Promise<Store> {
  const isUsual = events === KEPT
  const store =
    (isUsual ? shelf.pop() : undefined) ??
    (await openPostgresStore({
      url,
      schema: `story_${String(process.pid)}_${String((schemas += 1))}`,
      events,
      host: nodeHost,
      random: seededRandom(schemas),
      // The story's own clock is the judge. Measured time would make the store refuse to serve on a machine that stands still.
      clock: 'engine',
      // The machine may be busy.
      patienceMs: 10_000,
    }))
  await store.reset()
  if (!isUsual) return alone(store, () => store.close())
  taken.add(store)
  return alone(store, () => {
    if (taken.delete(store)) shelf.push(store)
    return Promise.resolve()
  })
}

/** After each test: the stores it left open are there for the next one. */
export async function shelveStores(): Promise<void> {
  if (taken.size === 0) return
  await quiet()
  shelf.push(...taken)
  taken.clear()
}

let asked = 0
let unanswered = 0

function alone(store: Store, close: () => Promise<void>): Store {
  return tracked(store, { clock: null, shared: false, close })
}

/** The same store, but for what is given `instead`; `quiet` waits for its answers. */
export function tracked(store: Store, instead: Partial<Store> = {}): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name in instead) return Reflect.get(instead, name) as unknown
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        const answer = (value as (...args: unknown[]) => unknown).apply(target, args)
        if (!(answer instanceof Promise)) return answer
        asked += 1
        unanswered += 1
        return answer.finally(() => {
          unanswered -= 1
        })
      }
    },
  })
}

/** What else `quiet` waits for: each says whether something is under way. */
export const alsoBusy = new Set<() => boolean>()

function isBusy(): boolean {
  return unanswered > 0 || [...alsoBusy].some((isBusy) => isBusy())
}

/** Nothing is under way, and nothing more is asked for when everybody has had a turn. */
export async function quiet(): Promise<void> {
  for (let before = -1; before !== asked || isBusy();) {
    before = asked
    await turn()
    while (isBusy()) await turn()
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** The same store, for one who closes it and is not the last. */
export function outliving(store: Store, instead: Partial<Store> = {}): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'close') return () => Promise.resolve()
      if (name in instead) return Reflect.get(instead, name) as unknown
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** A store that can be made to fail, at once or after so many calls. */
export function breakable(store: Store, afterCalls = Infinity): { store: Store; fails: (whether: boolean) => void } {
  let broken = false
  let calls = 0
  const proxy = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        if (name !== 'follow' && name !== 'close' && ++calls > afterCalls) broken = true
        if (broken && name !== 'close') return Promise.reject(new StoreUnavailable('the disk is full', undefined))
        return (value as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  return {
    store: proxy,
    fails: (whether) => {
      broken = whether
    },
  }
}
