/** The dead-letter list: read, retry, delete; for the data plane and, in its own shapes, for administrators. */
import {
  DEAD_LETTER_QUERY_SHAPES,
  meansAll,
  notFound,
  object,
  OVERRIDE_SHAPE,
  readCursor,
  readDeadLetterQuery,
  renderJob,
  text,
  type Fields,
  type Job,
} from '@curfew/core'
import { deleteJob, retryDead } from '../../engine/jobs/dead-letter.ts'
import { countSelected, selectJobs } from '../../engine/jobs/job-list.ts'
import { jobAnswer } from '../shapes/job-view.ts'
import { arrayOf, objectOf, type Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import {
  bodyOf,
  listPaginationOf,
  pagingOf,
  paginationOf,
  param,
  tenantOf,
  type Call,
  type Route,
} from '../api/route.ts'

const QUERY = { ...DEAD_LETTER_QUERY_SHAPES, cursor: text(), ...PAGES } as const

async function deadLetters(call: Call, byDefault: number, key: 'jobs' | 'items'): Promise<Answer> {
  const { jobs, pagination } = await selectDeadLetters(call, byDefault)
  return {
    body: objectOf({
      [key]: arrayOf(jobs.map((job) => renderJob(job))),
      pagination: JSON.stringify(pagination),
    }),
  }
}

/** By queue and type there is a list of dead letters alone; whatever else is asked for is looked up as in any list of jobs. */
async function selectDeadLetters(
  call: Call,
  byDefault: number,
): Promise<{ readonly jobs: readonly Job[]; readonly pagination: Fields }> {
  const { engine } = call
  const paging = pagingOf(call, byDefault)
  const filter = { ...readDeadLetterQuery((name) => call.query.texts.get(name) ?? null), tenant: tenantOf(call) }
  if (paging.cursor === null && meansAll({ ...filter, queue: null, type: null, states: [] })) {
    const { jobs, total } = await engine.read((reads) => reads.deadLetters(filter, paging))
    return { jobs, pagination: paginationOf(paging, total, jobs.length) }
  }
  const cursor = paging.cursor === null ? null : readCursor(paging.cursor, filter)
  const page = await selectJobs(engine, filter, cursor, paging)
  const count = await countSelected(engine, filter, cursor, paging, page)
  return { jobs: page.jobs, pagination: listPaginationOf(paging, count, page) }
}

async function deadLetter(call: Call): Promise<string> {
  const id = param(call, 'id')
  const job = await call.engine.read((reads) => reads.job(id))
  if (job === null || !job.deadLetter) throw notFound('dead letter', id)
  return renderJob(job)
}

async function stats(call: Call): Promise<Answer> {
  const counts = await call.engine.read((reads) => reads.deadLetterCounts())
  const byQueue = Object.fromEntries(counts.map(({ queue, count }) => [queue, count]))
  return { body: JSON.stringify({ total: counts.reduce((sum, { count }) => sum + count, 0), by_queue: byQueue }) }
}

/** What a retry may override. */
export const RETRY_SHAPE = object({ override: OVERRIDE_SHAPE })

export async function retryOne(call: Call, onlyDead: boolean): Promise<Answer> {
  const { override } = bodyOf(call, RETRY_SHAPE)
  const command = retryDead(call.engine, param(call, 'id'), { onlyDead, override })
  return { body: jobAnswer(renderJob(await call.engine.run(command))) }
}

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/dead-letter',
    tag: 'dead letter',
    summary: 'Dead letters, newest first',
    query: QUERY,
    handle: (call) => deadLetters(call, 50, 'jobs'),
  },
  {
    method: 'GET',
    path: '/ojs/v1/dead-letter/stats',
    tag: 'dead letter',
    summary: 'How many, by queue',
    handle: stats,
  },
  {
    method: 'GET',
    path: '/ojs/v1/dead-letter/:id',
    tag: 'dead letter',
    summary: 'One dead letter',
    handle: async (call) => ({ body: jobAnswer(await deadLetter(call)) }),
  },
  {
    method: 'POST',
    path: '/ojs/v1/dead-letter/:id/retry',
    aliases: ['POST /ojs/v1/admin/dead-letter/:id/retry'],
    tag: 'dead letter',
    summary: 'Retry a dead letter: attempts and clocks start again, limits and priority as overridden',
    body: { shape: RETRY_SHAPE, optional: true },
    handle: (call) => retryOne(call, true),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/dead-letter/:id',
    tag: 'dead letter',
    summary: 'Remove a dead letter and its job for good',
    handle: async (call) => {
      const id = param(call, 'id')
      await call.engine.run(deleteJob(id, true))
      return { body: JSON.stringify({ deleted: true, job_id: id }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/dead-letter',
    tag: 'admin',
    summary: 'Dead letters, in the admin form',
    query: QUERY,
    handle: (call) => deadLetters(call, 20, 'items'),
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/dead-letter/stats',
    tag: 'admin',
    summary: 'How many, by queue',
    handle: stats,
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/dead-letter/:id',
    tag: 'admin',
    summary: 'One dead letter, flat',
    handle: async (call) => ({ body: await deadLetter(call) }),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/admin/dead-letter/:id',
    tag: 'admin',
    summary: 'Remove a dead letter',
    answers: { 204: 'Removed' },
    handle: async (call) => {
      await call.engine.run(deleteJob(param(call, 'id'), true))
      return { status: 204, body: '' }
    },
  },
]
