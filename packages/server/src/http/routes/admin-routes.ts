/** For operators: totals, queue defaults, worker directives; and what only a test bench may do. */
import {
  elapsed,
  anyObject,
  iso,
  notFound,
  object,
  OjsError,
  QUEUE_CONFIG_SHAPE,
  QUEUE_SHAPE,
  renderJob,
  shownDirective,
  whole,
} from '@curfew/core'
import { cancel } from '../../engine/jobs/cancel.ts'
import { configureQueue } from '../../engine/queues/queue.ts'
import { direct, forgetWorker, type DirectiveWord } from '../../engine/workers/registry.ts'
import { RETRY_SHAPE, retryOne } from './dead-letter-routes.ts'
import { findJob, LIST_QUERY, listJobs } from './job-routes.ts'
import { type Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import { bodyOf, pagingOf, paginationOf, param, type Call, type Route } from '../api/route.ts'
import { oneQueue, pauseQueue, queuesOf, queueView, resumeQueue } from './queue-routes.ts'
import { workerSummary, workerView } from './registry-routes.ts'

const CLOCK_SHAPE = object({ advance_ms: whole(0, 315_360_000_000) }, { required: ['advance_ms'] })

export const ADMIN_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/admin/stats',
    tag: 'admin',
    summary: 'Totals of queues, jobs and workers',
    handle: async (call) => {
      const now = call.engine.now()
      const { queues, jobs, workers } = await call.engine.read(async (reads) => ({
        queues: (await reads.queueTotals()).total,
        jobs: await reads.totals(),
        workers: (await reads.workerTotals(now)).reduce((sum, { count }) => sum + count, 0),
      }))
      const { perMinute } = call.engine.meters.recentOfAll(now)
      return {
        body: JSON.stringify({
          queues,
          workers,
          jobs,
          throughput: { processed_per_minute: perMinute.completed, failed_per_minute: perMinute.failed },
          uptime_seconds: Math.floor(elapsed(call.engine.upAt, now) / 1000),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/queues',
    tag: 'admin',
    summary: 'All queues',
    query: PAGES,
    handle: async (call) => {
      const paging = pagingOf(call, 20)
      const { facts, total } = await queuesOf(call.engine, paging)
      return {
        body: JSON.stringify({
          items: facts.map(queueView),
          pagination: paginationOf(paging, total, facts.length),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/queues/:name',
    tag: 'admin',
    summary: 'One queue with its configuration',
    handle: async (call) => {
      const name = param(call, 'name')
      const facts = await oneQueue(call.engine, name)
      if (facts.queue === null) throw notFound('queue', name)
      return { body: JSON.stringify({ ...queueView(facts), config: facts.queue.config }) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/queues/:name/pause',
    tag: 'admin',
    summary: 'Pause a queue',
    handle: async (call) => ({ body: JSON.stringify(await pauseQueue(call)) }),
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/queues/:name/resume',
    tag: 'admin',
    summary: 'Resume a queue',
    handle: async (call) => ({ body: JSON.stringify(await resumeQueue(call)) }),
  },
  {
    method: 'PUT',
    path: '/ojs/v1/admin/queues/:name/config',
    tag: 'admin',
    summary: 'Default limits of a queue; merged by key, null removes. Stored jobs are not touched',
    body: { shape: QUEUE_CONFIG_SHAPE },
    handle: async (call) => {
      const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
      const queue = await configureQueue(call.engine, name, anyObject().read(call.json, ''))
      return { body: JSON.stringify({ name, queue: name, config: queue.config, ...queue.config }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/jobs',
    tag: 'admin',
    summary: 'Jobs, newest first',
    query: LIST_QUERY,
    handle: (call) => listJobs(call, 20, 'items'),
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/jobs/:id',
    tag: 'admin',
    summary: 'A job, flat',
    handle: async (call) => {
      const { job, life } = await findJob(call)
      return { body: renderJob(job, life) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/jobs/:id/retry',
    tag: 'admin',
    summary: 'Retry a discarded or cancelled job',
    body: { shape: RETRY_SHAPE, optional: true },
    handle: (call) => retryOne(call, false),
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/jobs/:id/cancel',
    tag: 'admin',
    summary: 'Cancel a job',
    handle: async (call) => {
      const { job } = await call.engine.run(cancel(param(call, 'id')))
      return { body: `{"job":${renderJob(job)}}` }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/workers',
    tag: 'admin',
    summary: 'Workers with a summary',
    query: PAGES,
    handle: async (call) => {
      const paging = pagingOf(call, 20)
      const { shown, summary } = await call.engine.read(async (reads, now) => ({
        shown: await reads.workersPage(paging),
        summary: await workerSummary(call.engine, reads, now),
      }))
      return {
        body: JSON.stringify({
          items: shown.map(workerView),
          summary,
          pagination: paginationOf(paging, summary.total, shown.length),
        }),
      }
    },
  },
  ...(['quiet', 'terminate', 'resume'] as const).map((word): Route => ({
    method: 'POST',
    path: `/ojs/v1/admin/workers/:id/${word}`,
    tag: 'admin',
    summary: `Tell a worker to ${word === 'quiet' ? 'stop fetching' : word === 'terminate' ? 'finish and exit' : 'go on'}, with its next beat`,
    handle: (call) => directive(call, word),
  })),
  {
    method: 'DELETE',
    path: '/ojs/v1/admin/workers/:id',
    tag: 'admin',
    summary: 'Remove the record of a stale worker',
    handle: async (call) => {
      const id = param(call, 'id')
      await call.engine.run(forgetWorker(id))
      call.engine.polls.dismiss(id)
      return { body: JSON.stringify({ deleted: true, worker_id: id }) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/reset',
    tag: 'test bench',
    summary: 'Wipe all state (only with --conformance)',
    handle: async (call) => {
      benchOnly(call)
      await call.engine.reset()
      await call.door.access.load()
      return { body: '{"reset":true}' }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/admin/clock',
    tag: 'test bench',
    summary:
      'Turn the manual clock; every deadline on the way is settled at its own instant (only with --conformance --clock manual)',
    body: { shape: CLOCK_SHAPE },
    handle: async (call) => {
      benchOnly(call)
      const now = await call.engine.advance(bodyOf(call, CLOCK_SHAPE).advance_ms)
      return { body: JSON.stringify({ now: iso(now) }) }
    },
  },
]

/** Without --conformance these paths do not exist. */
function benchOnly(call: Call): void {
  if (!call.info.conformance)
    throw new OjsError('not_found', 'There is nothing at this path (start the server with --conformance).')
}

async function directive(call: Call, word: DirectiveWord): Promise<Answer> {
  const worker = await direct(call.engine, param(call, 'id'), word)
  return {
    body: JSON.stringify({ worker_id: worker.id, directive: shownDirective(worker.directive), state: worker.state }),
  }
}
