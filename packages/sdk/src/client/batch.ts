/**
 * Many jobs in one request, which is stored whole or not at all. Each still passes the layers of middleware by itself: the
 * batch leaves when the last of them has arrived, and what a layer answered by itself is left out.
 */
import type { Connection } from './connection.ts'
import { argsOf, encodeInput } from '../job/define-job.ts'
import { wireJob, type EnqueueRequest, type PreparedOptions, type WireJob } from '../job/enqueue-options.ts'
import { InputError, RequestError } from '../errors.ts'
import { isFine } from './refusal.ts'
import { deferred } from '../waiting.ts'
import type { JobView } from '../wire/jobs.ts'

/** All through their layers, then all at once. `prepare` refuses what cannot be sent. */
export async function sendTogether(
  requests: readonly EnqueueRequest[],
  through: (request: EnqueueRequest, innermost: (request: EnqueueRequest) => Promise<JobView>) => Promise<JobView>,
  prepare: (request: EnqueueRequest) => Promise<WireJob>,
  send: (jobs: readonly WireJob[]) => Promise<readonly JobView[]>,
): Promise<JobView[]> {
  const gate = deferred<ReadonlyMap<number, JobView>>()
  gate.promise.catch(() => {})
  const arrived = new Map<number, WireJob>()
  const arrivals = requests.map(() => deferred<undefined>())
  const outcomes = requests.map((request, index) =>
    through(request, async (changed) => {
      if (arrived.has(index)) throw new InputError('A middleware may hand on a job of a batch only once.')
      arrived.set(index, await prepare(changed))
      arrivals[index]?.resolve(undefined)
      const job = (await gate.promise).get(index)
      if (job === undefined) throw new InputError('The batch has left without this job.')
      return job
    }),
  )
  for (const [index, outcome] of outcomes.entries()) {
    outcome.then(
      () => arrivals[index]?.resolve(undefined),
      (error: unknown) => arrivals[index]?.reject(atIndex(error, index)),
    )
  }
  try {
    await Promise.all(arrivals.map(({ promise }) => promise))
    const indexes = [...arrived.keys()].sort((a, b) => a - b)
    const sent = indexes.length === 0 ? [] : await send(indexes.map((index) => arrived.get(index) as WireJob))
    gate.resolve(new Map(indexes.map((index, place) => [index, sent[place] as JobView])))
  } catch (error) {
    gate.reject(error)
    await Promise.allSettled(outcomes)
    throw error
  }
  return Promise.all(outcomes)
}

/**
 * Jobs of one kind with the same options, which no layer has to see: the options are written once. A job that cannot be
 * sent is named by its index.
 */
export async function prepareAlike(
  prepared: PreparedOptions,
  inputs: readonly unknown[],
  newId: () => string,
): Promise<readonly WireJob[]> {
  const { job } = prepared
  const one = (args: readonly unknown[], index: number): WireJob => {
    try {
      return wireJob(prepared, newId(), args)
    } catch (error) {
      throw atIndex(error, index)
    }
  }
  if (job.options.input === undefined) return inputs.map((input, index) => one(argsOf(input), index))
  const checked = inputs.map((input, index) =>
    encodeInput(job, input).catch((error: unknown) => {
      throw atIndex(error, index)
    }),
  )
  return (await Promise.all(checked)).map(one)
}

/** The request itself. A batch that was heard before the answer got lost is there as a whole. */
export async function postBatch(
  connection: Connection,
  jobs: readonly WireJob[],
  areOwnIds: boolean,
  signal: AbortSignal | undefined,
): Promise<readonly JobView[]> {
  const answer = await connection.send({
    method: 'POST',
    path: '/ojs/v1/jobs/batch',
    json: `{"jobs":[${jobs.map(({ json }) => json).join(',')}]}`,
    idempotent: true,
    signal,
  })
  if (isFine(answer.status)) return connection.read<{ jobs: JobView[] }>(answer).jobs
  const error = connection.refusal(answer)
  const isEcho =
    error.code === 'duplicate' &&
    jobs.some(({ id }) => id === error.details['existing_job_id']) &&
    areOwnIds &&
    answer.tries > 1
  if (!isEcho) throw error
  const found: JobView[] = []
  for (const { id } of jobs) {
    const path = `/ojs/v1/jobs/${id}`
    const { job } = await connection.call<{ job: JobView }>({ method: 'GET', path, idempotent: true, signal })
    found.push(job)
  }
  return found
}

export function atIndex(error: unknown, index: number): unknown {
  if (error instanceof RequestError || !(error instanceof InputError)) return error
  return new InputError(`Entry ${String(index)}: ${error.message}`, { ...error.details, index })
}
