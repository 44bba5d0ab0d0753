/** The door for jobs: PUSH, INFO, CANCEL, PATCH, results, plan and explain. */
import {
  badField,
  ENQUEUE_SHAPE,
  explain as explainJob,
  FEW_FIELDS,
  flag,
  isTerminal,
  JOB_QUERY_SHAPES,
  list,
  logView,
  MAX_VALUES_OF_MANY,
  MAX_IN_BATCH,
  nearMissWarnings,
  notFound,
  object,
  OjsError,
  PATCH_SHAPE,
  readBatch,
  readCursor,
  readEnqueue,
  readJobQuery,
  renderJob,
  retryHistory,
  ruled,
  seconds,
  stepSpansIn,
  text,
  UUID_V7,
  type Job,
  type Json,
  type Liveness,
  type Pressure,
  type StepSpan,
} from '@curfew/core'
import { activate, cancel } from '../../engine/jobs/cancel.ts'
import type { Enqueued } from '../../engine/jobs/admission.ts'
import { enqueue, enqueueBatch, plan } from '../../engine/jobs/enqueue.ts'
import { waitForCapacity, type Patience } from '../../engine/queues/capacity-waiters.ts'
import { pressureHeaders } from '../api/errors.ts'
import { redactedJob } from '../api/redacted.ts'
import { patch } from '../../engine/jobs/patch.ts'
import { inPieces, inTurns } from '../../engine/kernel/turns.ts'
import { until } from '../../engine/kernel/until.ts'
import type { Engine } from '../../engine/engine.ts'
import { countSelected, selectJobs } from '../../engine/jobs/job-list.ts'
import { jobAnswer } from '../shapes/job-view.ts'
import { arrayOf, objectOf, type Answer } from '../api/message.ts'
import { MINIMAL_APPLIED, minimalJob, prefersMinimal } from '../api/prefer.ts'
import { limitHeaders, whatHolds } from './rate-limit-routes.ts'
import { PAGES, upTo } from '../api/query.ts'
import { listPaginationOf, pagingOf, param, queryOf, tenantOf, type Call, type Route } from '../api/route.ts'

/** Where a list goes on after the last of the page before. */
export const CURSOR = text({ pattern: UUID_V7, expected: 'a next_cursor from an earlier answer' })

const RESULT_QUERY = { wait: flag(), timeout: upTo(1, 300) } as const

const BATCH_SHAPE = ruled(object({ jobs: list(ENQUEUE_SHAPE, 1, MAX_IN_BATCH) }, { required: ['jobs'] }), FEW_FIELDS)

/** The parameters of a list of jobs. */
export const LIST_QUERY = { ...JOB_QUERY_SHAPES, cursor: text(), ...PAGES } as const

export const JOB_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/jobs',
    tag: 'jobs',
    summary: 'Enqueue a job',
    body: { shape: ENQUEUE_SHAPE },
    answers: {
      201: 'The job as stored',
      200: 'There is a job for the same work, and the request said to keep it: that job',
      409: 'The id is taken, or there is a job for the same work',
      429: 'The queue is full',
    },
    handle: async (call) => {
      const { engine } = call
      const request = readEnqueue(
        call.text,
        call.json,
        engine.now(),
        tenantOf(call),
        engine.settings.strict,
        call.memory,
      )
      const command = enqueue(engine, request)
      const patience = patienceOf(call)
      const { value, durable } =
        patience === null
          ? await engine.runAhead(command)
          : { value: await waitForCapacity(engine, command, patience), durable: Promise.resolve() }
      const { job, deduplicated, pressure } = value
      const headers: Record<string, string> = { Location: `/ojs/v1/jobs/${job.id}` }
      if (job.limitKey !== null || engine.limitedQueues.has(job.queue))
        Object.assign(headers, await limitHeaders(engine, job))
      if (pressure !== null) Object.assign(headers, underPressure(pressure))
      return deduplicated
        ? { status: 200, headers, body: jobAnswer(renderJob(job), '"deduplicated":true'), durable }
        : { status: 201, headers, body: jobAnswer(renderJob(job)), durable }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/jobs/batch',
    tag: 'jobs',
    summary: 'Enqueue many jobs: all or none',
    body: { shape: BATCH_SHAPE, maxValues: MAX_VALUES_OF_MANY },
    prefersReturn: true,
    answers: {
      201: 'The jobs in the order of the request; those that were there already say "deduplicated": true',
      409: 'An id is taken, or there is a job for the same work: nothing was stored',
      429: 'A queue has not enough room for all of them: nothing was stored',
    },
    handle: async (call) => {
      const { engine } = call
      const { strict } = engine.settings
      const reading = readBatch(call.text, call.json, engine.now(), tenantOf(call), strict)
      const read = inPieces(engine.host, reading)
      const { entries, nearMisses } = read instanceof Promise ? await read : read
      const warnings = nearMissWarnings(nearMisses)
      const command = enqueueBatch(engine, entries)
      const patience = patienceOf(call)
      const all = await (patience === null ? engine.run(command) : waitForCapacity(engine, command, patience))
      const pressure = all.findLast((enqueued) => enqueued.pressure !== null)?.pressure ?? null
      const isMinimal = prefersMinimal(call)
      const view = isMinimal ? ({ job, deduplicated }: Enqueued) => minimalJob(job, deduplicated) : enqueuedView
      return {
        status: 201,
        headers: { ...(pressure === null ? {} : underPressure(pressure)), ...(isMinimal ? MINIMAL_APPLIED : {}) },
        body: objectOf({
          jobs: arrayOf(await inTurns(engine.host, all, view)),
          count: String(all.length),
          x_warnings: warnings.length === 0 ? undefined : JSON.stringify(warnings),
        }),
      }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/jobs/plan',
    tag: 'jobs',
    summary: 'Show what an enqueue would mean: every limit, which wins, which attempts fit. Nothing is stored',
    body: { shape: ENQUEUE_SHAPE },
    handle: async (call) => {
      const { engine } = call
      const request = readEnqueue(
        call.text,
        call.json,
        engine.now(),
        tenantOf(call),
        engine.settings.strict,
        call.memory,
      )
      const planned = await engine.run(plan(engine, request))
      return { body: JSON.stringify(planned) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs',
    tag: 'jobs',
    summary: 'List jobs, newest first',
    query: LIST_QUERY,
    handle: (call) => listJobs(call, 50, 'jobs'),
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id',
    tag: 'jobs',
    summary: 'A job as it is now',
    handle: async (call) => {
      const { job, life } = await findJob(call)
      const log = job.log === undefined ? '' : `"x_log":${JSON.stringify(logView(job.log))}`
      return { body: jobAnswer(renderJob(job, life, log)) }
    },
  },
  {
    method: 'PATCH',
    path: '/ojs/v1/jobs/:id',
    tag: 'jobs',
    summary: 'Change limits, priority or moments of a job that is waiting',
    body: { shape: PATCH_SHAPE },
    handle: async (call) => {
      const job = await call.engine.run(patch(call.engine, param(call, 'id'), call.json))
      return { body: jobAnswer(renderJob(job)) }
    },
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/jobs/:id',
    aliases: ['POST /ojs/v1/jobs/:id/cancel'],
    tag: 'jobs',
    summary: 'Cancel a job; an active one at once',
    handle: async (call) => {
      const { job, previous } = await call.engine.run(cancel(param(call, 'id')))
      return { body: jobAnswer(renderJob(job, undefined, `"previous_state":"${previous}"`)) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/jobs/:id/activate',
    tag: 'jobs',
    summary: 'Make a pending job available',
    handle: async (call) => {
      const job = await call.engine.run(activate(param(call, 'id')))
      return { body: jobAnswer(renderJob(job)) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/explain',
    tag: 'jobs',
    summary: 'Why the job ended or waits, from its recorded history',
    handle: async (call) => {
      const { job, life } = await findJob(call)
      const heldBy = await whatHolds(call.engine, job)
      const steps = await stepsOf(call.engine, job)
      return { body: JSON.stringify(explainJob(job, life, call.engine.now(), heldBy, steps)) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/retries',
    tag: 'jobs',
    summary: 'The attempts of a job that failed, oldest first: its error and the time of the next attempt',
    handle: async (call) => ({ body: JSON.stringify(retryHistory((await findJob(call)).job)) }),
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/result',
    tag: 'jobs',
    summary: 'The result; with wait=true, wait for it',
    query: RESULT_QUERY,
    answers: { 408: 'Still not finished when the wait was over', 410: 'It was finished and has been removed since' },
    handle: (call) => result(call),
  },
]

/** In a list, a job that was there already says so itself. */
export function enqueuedView({ job, deduplicated }: Enqueued): Json {
  return renderJob(job, undefined, deduplicated ? '"deduplicated":true' : '')
}

export function underPressure(pressure: Pressure): Record<string, string> {
  return { ...pressureHeaders(pressure), 'X-OJS-Queue-Pressure': (pressure.depth / pressure.bound).toFixed(2) }
}

const MAX_BLOCK_SECONDS = 300

/** For how long a request may wait for capacity (OJS backpressure §5.2); null: not at all. */
export function patienceOf(call: Call): Patience | null {
  const { request } = call
  const sent = request.headers['ojs-block-timeout']
  if (sent === undefined) return null
  if (!/^\d{1,9}(\.\d{1,3})?$/.test(sent.trim()))
    throw badField('OJS-Block-Timeout', 'OJS-Block-Timeout must be a number of seconds, such as 30.')
  const waitMs = seconds(Math.min(Number(sent), MAX_BLOCK_SECONDS))
  return waitMs > 0 ? { waitMs, gone: request.signal } : null
}

/** A job by the id in the path, with what is known of its holder. */
/** The durable steps that are stored, without their results. */
async function stepsOf(engine: Engine, job: Job): Promise<StepSpan[]> {
  if (job.checkpointSeq === 0) return []
  const saved = await engine.read((reads) => reads.checkpoint(job.id))
  return stepSpansIn(saved?.state ?? null)
}

export async function findJob(call: Call): Promise<{ job: Job; life: Liveness }> {
  const id = param(call, 'id')
  const found = await call.engine.read((reads) => reads.job(id))
  if (found === null) throw notFound('job', id)
  const job = call.redaction === null ? found : redactedJob(call.redaction, found)
  return { job, life: await livenessOf(call.engine, job) }
}

export async function livenessOf(engine: Engine, job: Job): Promise<Liveness> {
  const workerId = job.hold?.workerId ?? null
  const worker = workerId === null ? null : await engine.read((reads) => reads.worker(workerId))
  return { worker, outages: engine.outages, workerTimeoutMs: engine.settings.workerTimeoutMs }
}

export async function listJobs(call: Call, byDefault: number, key: 'jobs' | 'items'): Promise<Answer> {
  const { engine } = call
  const paging = pagingOf(call, byDefault)
  const filter = { ...readJobQuery((name) => call.query.texts.get(name) ?? null), tenant: tenantOf(call) }
  const cursor = paging.cursor === null ? null : readCursor(paging.cursor, filter)
  const page = await selectJobs(engine, filter, cursor, paging)
  const count = await countSelected(engine, filter, cursor, paging, page)
  const rendered: string[] = []
  for (const job of page.jobs) rendered.push(renderJob(job, await livenessOf(engine, job)))
  return {
    body: objectOf({
      [key]: arrayOf(rendered),
      pagination: JSON.stringify(listPaginationOf(paging, count, page)),
    }),
  }
}

async function result(call: Call): Promise<Answer> {
  const { engine } = call
  const id = param(call, 'id')
  const { wait: waits = false, timeout = 30 } = queryOf(call, RESULT_QUERY)
  const timeoutMs = timeout * 1000
  const look = (): Promise<Job | null> => engine.read((reads) => reads.job(id))
  let job = await look()
  if (job === null) {
    if (await engine.read((reads) => reads.wasPurged(id)))
      throw new OjsError('gone', 'The job existed and has been removed.')
    throw notFound('job', id)
  }
  if (waits && !isTerminal(job.state)) job = (await ending(call, id, look, timeoutMs)) ?? job
  if (waits && !isTerminal(job.state)) {
    const details = { job_id: id, state: job.state }
    if (engine.closing.aborted)
      throw new OjsError('unavailable', 'The server is stopping, and the job is not finished yet.', { details })
    throw new OjsError('request_timeout', `The job was not finished within ${String(timeoutMs / 1000)} seconds.`, {
      details,
    })
  }
  return {
    body: objectOf({
      job_id: JSON.stringify(id),
      state: JSON.stringify(job.state),
      result: job.result ?? undefined,
      error: isTerminal(job.state) ? (job.error ?? undefined) : undefined,
    }),
  }
}

/** The job, once it is over, the time is up, the caller is gone or the server stops. */
async function ending(call: Call, id: string, look: () => Promise<Job | null>, timeoutMs: number): Promise<Job | null> {
  const { engine, request } = call
  await until(engine.host, {
    signals: [request.signal, engine.closing],
    ms: timeoutMs,
    listen: (end) => {
      // It may have ended between the first look and the listening. A look that fails is repeated below, and refused there.
      look().then((job) => {
        if (job === null || isTerminal(job.state)) end()
      }, end)
      return engine.listen(({ changes }) => {
        if (changes.some((change) => change.id === id && (change.to === null || isTerminal(change.to)))) end()
      })
    },
  })
  return look()
}
