/**
 * News: what a commit made true, told to the other servers with the commit itself (`pg_notify`). A payload may have less
 * than 8000 bytes, so a large commit is announced in pieces. The server that announces it does not listen to it.
 */
import type { Instant, JobState, NewEvent } from '@curfew/core'
import type { News, StateChange } from '../store.ts'

/** The pieces without their end, which the database has to add (`ending`): it knows the last place in the log. */
const MOST_BYTES = 7_850

type Group = readonly [
  queue: string,
  type: string,
  from: JobState | null,
  to: JobState | null,
  ids: string[],
  // Of jobs that have one. An older server does not look at it, and does not tell it.
  tenant?: string,
]

interface Payload {
  /** Who told it. */
  readonly w: string
  readonly c: readonly Group[]
  readonly l: readonly NewEvent[]
  /** Workers with new orders, if there are any. An older server does not look at it, and does not tell it. */
  readonly o?: readonly string[]
  /** The nearest wake. */
  readonly a: Instant | null
  /** The last event. */
  readonly e: number | null
}

export const NO_LAST_EVENT = ',"e":null}'
export const BEFORE_LAST_EVENT = ',"e":'
export const AFTER_LAST_EVENT = '}'

export function piecesOf(
  who: string,
  { changes, live, orders }: Pick<News, 'changes' | 'live' | 'orders'>,
  wakeAt: Instant | null,
): string[] {
  const pieces: string[] = []
  const head = `${headOf(who)}"a":${String(wakeAt)}`
  let groups: string[] = []
  let events: string[] = []
  let workers: string[] = []
  let bytes = 0
  const end = (): void => {
    const ordered = workers.length === 0 ? '' : `,"o":[${workers.join()}]`
    pieces.push(`${head},"c":[${groups.join()}],"l":[${events.join()}]${ordered}`)
    groups = []
    events = []
    workers = []
    bytes = 0
  }
  const room = MOST_BYTES - Buffer.byteLength(head) - 27
  const take = (into: () => string[], text: string): void => {
    const size = Buffer.byteLength(text) + 1
    if (bytes + size > room) end()
    bytes += size
    into().push(text)
  }
  for (const text of groupTexts(changes, room)) take(() => groups, text)
  for (const workerId of orders) take(() => workers, JSON.stringify(workerId))
  for (const event of live) {
    const text = JSON.stringify(event)
    // One that is too large for the line is dropped: news are not reliable.
    if (Buffer.byteLength(text) < room) take(() => events, text)
  }
  if (pieces.length === 0 || bytes > 0) end()
  return pieces
}

/** Changes that have all but the id in common are written once, in as many texts as it takes. */
function* groupTexts(changes: readonly StateChange[], room: number): Generator<string> {
  const groups = new Map<string, { head: string; end: string; ids: string[] }>()
  for (const { id, queue, type, from, to, tenant } of changes) {
    const head = JSON.stringify([queue, type, from, to]).slice(0, -1)
    const end = tenant === null ? ']]' : `],${JSON.stringify(tenant)}]`
    const key = `${head}${end}`
    const known = groups.get(key)
    if (known === undefined) groups.set(key, { head, end, ids: [id] })
    else known.ids.push(id)
  }
  for (const { head, end, ids } of groups.values()) {
    const most = room - Buffer.byteLength(head) - Buffer.byteLength(end) - 10
    let texts: string[] = []
    let bytes = 0
    for (const id of ids) {
      const text = JSON.stringify(id)
      const size = Buffer.byteLength(text) + 1
      if (bytes + size > most && texts.length > 0) {
        yield `${head},[${texts.join()}${end}`
        texts = []
        bytes = 0
      }
      texts.push(text)
      bytes += size
    }
    yield `${head},[${texts.join()}${end}`
  }
}

const headOf = (who: string): string => `{"w":${JSON.stringify(who)},`

/** What another server told; null if it was this one. Every commit here comes back, so its own are known by their head. */
export function newsFrom(payload: string, me: string): News | null {
  if (payload.startsWith(headOf(me))) return null
  const { w, c, l, o = [], a, e } = JSON.parse(payload) as Payload
  if (w === me) return null
  const changes = c.flatMap(([queue, type, from, to, ids, tenant = null]) =>
    ids.map((id) => ({ id, queue, type, from, to, tenant })),
  )
  return { changes, live: l, orders: o, lastEvent: e, wakeAt: a, inbox: false }
}

/** An application told of what it has laid into the inbox. */
export const INBOX_NEWS: News = {
  changes: [],
  live: [],
  orders: [],
  lastEvent: null,
  wakeAt: null,
  inbox: true,
}
