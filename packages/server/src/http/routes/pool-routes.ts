/** Pools, and how jobs were handed out lately. */
import { iso, notFound, POOL, POOL_NAME_SHAPE, POOL_SHAPE, poolOf, readDoc, type Pool } from '@curfew/core'
import { deletePool, putPool } from '../../engine/queues/pools.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import { queuesOf } from './queue-routes.ts'
import { pagingOf, paginationOf, param, type Call, type Route } from '../api/route.ts'

const MAX_POOLS = 10_000
/** How many queues the statistics of all queues show, by name. */
const MAX_SHOWN = 1_000

async function view(engine: Engine, { name, strategy, queues, createdAt, updatedAt }: Pool): Promise<object> {
  const found = await engine.read((reads) => reads.countsOf(queues.map((queue) => queue.name)))
  const counts = [...found.values()]
  return {
    name,
    strategy,
    queues: queues.map((queue) => queue.name),
    ...(strategy === 'weighted'
      ? { weights: Object.fromEntries(queues.map((queue) => [queue.name, queue.weight])) }
      : {}),
    active_jobs: counts.reduce((sum, { active }) => sum + active, 0),
    available_jobs: counts.reduce((sum, { available }) => sum + available, 0),
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
  }
}

const nameOf = (call: Call): string => POOL_NAME_SHAPE.read(param(call, 'name'), 'name')

async function stats(call: Call): Promise<Answer> {
  const { engine } = call
  const now = engine.now()
  const { facts } = await queuesOf(engine, { limit: MAX_SHOWN, offset: 0 })
  const total = engine.meters.recentOfAll(now).perMinute.started
  const queues = facts.map(({ name, queue, counts }) => {
    const recent = engine.meters.recent(name, now)
    return {
      name,
      pool: queue === null ? null : (poolOf(queue.config)?.name ?? null),
      dispatch_count_1m: recent.perMinute.started,
      dispatch_ratio_1m: total === 0 ? 0 : Math.round((recent.perMinute.started / total) * 1000) / 1000,
      avg_wait_ms: recent.avgWaitMs,
      active_jobs: counts.active,
      available_jobs: counts.available,
    }
  })
  return { body: JSON.stringify({ stats: { queues, window: 'PT1M' }, queues, window: 'PT1M' }) }
}

export const POOL_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/admin/pools',
    tag: 'pools',
    summary: 'All pools',
    query: PAGES,
    handle: async (call) => {
      const paging = pagingOf(call, 20)
      const docs = await call.engine.read((reads) => reads.docs(POOL.kind, '', null, MAX_POOLS))
      const some = docs.slice(paging.offset, paging.offset + paging.limit)
      const shown = await Promise.all(some.map((doc) => view(call.engine, readDoc<Pool>(doc))))
      return { body: JSON.stringify({ items: shown, pagination: paginationOf(paging, docs.length, shown.length) }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/pools/:name',
    tag: 'pools',
    summary: 'One pool',
    handle: async (call) => {
      const name = nameOf(call)
      const doc = await call.engine.read((reads) => reads.doc(POOL.kind, name))
      if (doc === null) throw notFound('pool', name)
      return { body: JSON.stringify({ pool: await view(call.engine, readDoc<Pool>(doc)) }) }
    },
  },
  {
    method: 'PUT',
    path: '/ojs/v1/admin/pools/:name',
    tag: 'pools',
    summary: 'Let queues share the workers that serve them, by a strategy; replaces the former pool',
    body: { shape: POOL_SHAPE },
    answers: { 409: 'A queue belongs to another pool' },
    handle: async (call) => {
      const pool = await call.engine.run(putPool(nameOf(call), call.json))
      return { body: JSON.stringify({ pool: await view(call.engine, pool) }) }
    },
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/admin/pools/:name',
    tag: 'pools',
    summary: 'Remove a pool; its queues are served from left to right again',
    handle: async (call) => {
      const { name } = await call.engine.run(deletePool(nameOf(call)))
      return { body: JSON.stringify({ deleted: true, name }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/scheduling/stats',
    tag: 'pools',
    summary: 'How many jobs of each queue this server handed out in the last minute',
    handle: stats,
  },
]
