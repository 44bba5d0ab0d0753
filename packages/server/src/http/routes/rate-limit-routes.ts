/** Limiters: what they let through, who holds them and who waits. And the headers that tell of them at enqueue. */
import {
  allowance,
  anyObject,
  givenRateLimit,
  heldByLimit,
  instant,
  iso,
  LIMIT_KEY_SHAPE,
  LIMITER,
  limiterOfKey,
  limiterOfQueue,
  newLimiter,
  NO_TERMS,
  notFound,
  QUEUE_RATE_LIMIT_SHAPE,
  QUEUE_SHAPE,
  queueTerms,
  readDoc,
  spacingOf,
  startsWithin,
  text,
  writeRate,
  writeTerms,
  type Allowance,
  type Fields,
  type HeldBy,
  type Instant,
  type Job,
  type Limiter,
} from '@curfew/core'
import type { Engine } from '../../engine/engine.ts'
import { configureQueue } from '../../engine/queues/queue.ts'
import type { Reads } from '../../store/store.ts'
import { PAGES } from '../api/query.ts'
import { pagingOf, param, type Route } from '../api/route.ts'

/** A limiter with what the store counts for it. */
interface Standing {
  readonly of: { readonly key: string } | { readonly queue: string }
  readonly limiter: Limiter
  readonly active: number
  readonly waiting: number
}

export const RATE_LIMIT_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/rate-limits',
    tag: 'rate limits',
    summary: 'All limiters of keys and queues that are in use, by name',
    query: { limit: PAGES.limit, cursor: text() },
    handle: async (call) => {
      const { limit, cursor } = pagingOf(call, 50)
      const now = call.engine.now()
      const { found, next } = await call.engine.read(async (reads) => {
        const docs = await reads.docs(LIMITER.kind, '', cursor, limit + 1)
        const shown = docs.slice(0, limit)
        const standings: (Standing | null)[] = []
        for (const { id } of shown) standings.push(await standingOf(reads, id, now))
        return { found: standings, next: docs.length > limit ? (shown.at(-1)?.id ?? null) : null }
      })
      return {
        body: JSON.stringify({
          items: found.filter((standing) => standing !== null).map((standing) => limiterView(standing, now)),
          pagination: { limit, has_more: next !== null, ...(next === null ? {} : { next_cursor: next }) },
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/rate-limits/:key',
    tag: 'rate limits',
    summary: 'What the limiter of a key lets through, who holds it and who waits for it',
    handle: async (call) => {
      const key = LIMIT_KEY_SHAPE.read(param(call, 'key'), 'key')
      const now = call.engine.now()
      const found = await call.engine.read((reads) => standingOf(reads, limiterOfKey(key), now))
      if (found === null) throw notFound('rate limit', key)
      return { body: JSON.stringify(limiterView(found, now)) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/queues/:name/rate-limit',
    tag: 'rate limits',
    summary: 'What the limiter of a queue lets through',
    handle: async (call) => {
      const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
      const now = call.engine.now()
      const found = await call.engine.read((reads) => standingOf(reads, limiterOfQueue(name), now))
      if (found === null) throw notFound('rate limit', name)
      return { body: JSON.stringify(limiterView(found, now)) }
    },
  },
  {
    method: 'PUT',
    path: '/ojs/v1/admin/queues/:name/rate-limit',
    tag: 'rate limits',
    summary: 'Limit how many jobs of a queue start, or run at once; replaces what was set. An empty object lifts it',
    body: { shape: QUEUE_RATE_LIMIT_SHAPE },
    handle: async (call) => {
      const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
      const sent = anyObject().read(call.json, '')
      const terms = QUEUE_RATE_LIMIT_SHAPE.read(sent, '')
      const written = writeTerms(terms)
      const isNone = Object.keys(written).length === 0
      await configureQueue(call.engine, name, { rate_limit: isNone ? null : written })
      return { body: JSON.stringify({ queue: name, ...written }) }
    },
  },
]

/** Null if the limiter does not exist. */
async function standingOf(reads: Reads, id: string, now: Instant): Promise<Standing | null> {
  const isOfQueue = id.startsWith(limiterOfQueue(''))
  const name = id.slice(id.indexOf('/') + 1)
  const doc = await reads.doc(LIMITER.kind, id)
  const stored = doc === null ? null : readDoc<Limiter>(doc)
  if (isOfQueue) {
    const queue = await reads.queue(name)
    const terms = queue === null ? null : queueTerms(queue.config)
    if (terms === null) return null
    const counts = (await reads.countsOf([name])).get(name)
    const limiter = stored === null ? newLimiter(terms, now) : { ...stored, terms }
    return { of: { queue: name }, limiter, active: counts?.active ?? 0, waiting: counts?.available ?? 0 }
  }
  if (stored === null) return null
  const { active, available } = await reads.limited(name)
  return { of: { key: name }, limiter: stored, active, waiting: available }
}

function limiterView({ of, limiter, active, waiting }: Standing, now: Instant): Fields {
  const { concurrency, rate, throttle } = limiter.terms
  const { opensAt } = allowance(limiter, active, now)
  const started = rate === null ? 0 : startsWithin(limiter, rate.periodMs, now)
  const nextAt = (): string => iso(allowance(onlyThrottle(limiter), 0, now).opensAt ?? now)
  return {
    ...of,
    concurrency:
      concurrency === null ? null : { limit: concurrency, active, available: Math.max(0, concurrency - active) },
    active,
    waiting,
    waiting_count: waiting,
    rate:
      rate === null
        ? null
        : {
            ...writeRate(rate),
            current_count: started,
            remaining: Math.max(0, rate.limit - started),
            window_resets_at: iso(opensAt ?? now),
          },
    throttle: throttle === null ? null : { ...writeRate(throttle), next_allowed_at: nextAt() },
    window: { kind: 'sliding', opens_at: opensAt === null ? null : iso(opensAt) },
  }
}

const onlyThrottle = (limiter: Limiter): Limiter => ({
  ...limiter,
  terms: { ...limiter.terms, rate: null, concurrency: null },
})

/** What a job's limiters leave, of the one that leaves least. Starts are meant, not requests: an enqueue is never refused for it. */
export async function limitHeaders(engine: Engine, job: Job): Promise<Record<string, string>> {
  const now = engine.now()
  const ids = [...(job.limitKey === null ? [] : [limiterOfKey(job.limitKey)]), limiterOfQueue(job.queue)]
  const found = await engine.read(async (reads) => {
    const standings: (Standing | null)[] = []
    for (const id of ids) standings.push(await standingOf(reads, id, now))
    return standings.filter((standing) => standing !== null)
  })
  let tightest: { limit: number; allowed: Allowance } | null = null
  for (const { limiter, active } of found) {
    const limit = largestOf(limiter)
    const allowed = allowance(limiter, active, now)
    if (limit !== null && (tightest === null || allowed.starts < tightest.allowed.starts)) tightest = { limit, allowed }
  }
  if (tightest === null) return {}
  return {
    'X-RateLimit-Limit': String(tightest.limit),
    'X-RateLimit-Remaining': String(tightest.allowed.starts),
    'X-RateLimit-Reset': String(Math.ceil(instant(tightest.allowed.opensAt ?? now) / 1000)),
  }
}

/** What keeps an available job from being handed out, in the order in which a claim asks. */
export async function whatHolds(engine: Engine, job: Job): Promise<HeldBy | null> {
  const { state, queue: name, limitKey: key } = job
  if (state !== 'available') return null
  const now = engine.now()
  return engine.read(async (reads) => {
    const queue = await reads.queue(name)
    if (queue !== null && queue.pausedAt !== null) return { kind: 'paused_queue', name }
    const ofQueue = await standingOf(reads, limiterOfQueue(name), now)
    const held =
      ofQueue === null ? null : heldByLimit({ kind: 'queue_limit', name }, ofQueue.limiter, ofQueue.active, 'wait', now)
    if (held !== null || key === null) return held
    const asked = givenRateLimit(job.given)
    const { limiter, active } = (await standingOf(reads, limiterOfKey(key), now)) ?? {
      // A limiter that was forgotten gets its terms back from the job.
      limiter: newLimiter(asked?.terms ?? NO_TERMS, now),
      active: 0,
    }
    return heldByLimit({ kind: 'key_limit', name: key }, limiter, active, asked?.onLimit ?? 'wait', now)
  })
}

/** How many may start at once when nothing has yet. */
function largestOf({ terms: { concurrency, rate, throttle } }: Limiter): number | null {
  const limits = [
    ...(concurrency === null ? [] : [concurrency]),
    ...(rate === null ? [] : [rate.limit]),
    ...(throttle === null ? [] : [spacingOf(throttle).limit]),
  ]
  return limits.length === 0 ? null : Math.min(...limits)
}
