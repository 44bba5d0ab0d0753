/** EXCHANGE: a worker's reports, its beat and its fetch in one round trip. */
import {
  badField,
  elapsed,
  elementsOf,
  iso,
  list,
  logBatchOf,
  textOfMember,
  object,
  oneOf,
  retryComesAt,
  ruled,
  whole,
  WORKER_ID_SHAPE,
  WORKER_STATES,
  type Fence,
  type Instant,
  type Job,
  type Json,
  type LogBatch,
} from '@curfew/core'
import type { Outcome } from '../../engine/kernel/command.ts'
import { exchange, type Exchange } from '../../engine/jobs/exchange.ts'
import type { FetchRequest } from '../../engine/jobs/fetch.ts'
import type { Listening, Orders } from '../../engine/workers/orders.ts'
import { isRepeat } from '../../engine/jobs/reports.ts'
import type { Saved } from '../../engine/jobs/signs.ts'
import { beatReport, beatView, NAMELESS_BEAT_SHAPE, stopView } from '../shapes/beat-shape.ts'
import { errorView, statusOf } from '../api/errors.ts'
import { deliver, FETCH_FIELDS, fetchRequest, handedOut } from '../shapes/fetch-shape.ts'
import { arrayOf, objectOf } from '../api/message.ts'
import {
  ACK_FIELDS,
  CHECKPOINT_FIELDS,
  checkpointOf,
  ERROR_OR_REQUEUE,
  failureOf,
  fenceOf,
  JOB_ID,
  memberText,
  NACK_FIELDS,
} from '../shapes/report-shapes.ts'
import { bodyOf, tenantOf, type Call, type Route } from '../api/route.ts'

export const MAX_REPORTS = 1_000
const MAX_HEARD = 10_000

/** The worker is named once, for all of them. */
const REPORT_FIELDS = { job_id: JOB_ID, attempt: whole(0), x_lease: whole(0) } as const
interface ReportRead {
  readonly job_id: string
  readonly attempt?: number
  readonly x_lease?: number
  readonly x_log?: Parameters<typeof logBatchOf>[0]
}

const EXCHANGE_SHAPE = object(
  {
    worker_id: WORKER_ID_SHAPE,
    seq: whole(0),
    checkpoints: list(
      object({ ...REPORT_FIELDS, ...CHECKPOINT_FIELDS }, { required: ['job_id', 'state'] }),
      0,
      MAX_REPORTS,
    ),
    acks: list(object({ ...REPORT_FIELDS, ...ACK_FIELDS }, { required: ['job_id'] }), 0, MAX_REPORTS),
    nacks: list(
      ruled(object({ ...REPORT_FIELDS, ...NACK_FIELDS }, { required: ['job_id'] }), ERROR_OR_REQUEUE),
      0,
      MAX_REPORTS,
    ),
    beat: NAMELESS_BEAT_SHAPE,
    fetch: object({ ...FETCH_FIELDS, count: whole(0, 1000) }, { required: ['queues'] }),
    listen: object(
      {
        state: oneOf(...WORKER_STATES),
        seq: whole(0),
        heard: list(object({ job_id: JOB_ID, x_lease: whole(0) }, { required: ['job_id', 'x_lease'] }), 0, MAX_HEARD),
      },
      { required: ['state', 'seq'] },
    ),
  },
  { required: ['worker_id'] },
)

export const EXCHANGE_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workers/exchange',
    tag: 'workers',
    summary:
      'Checkpoints, ACKs, FAILs, a BEAT and a FETCH in one round trip; with listen, orders to the worker as well',
    body: { shape: EXCHANGE_SHAPE },
    handle: async (call) => {
      const askedAt = call.engine.now()
      const asked = exchangeOf(call)
      const done = await exchange(call.engine, asked, call.request.signal)
      const handed = await deliver(call, done.handed)
      const answeredAt = call.engine.now()
      const entries = entriesFor(call.requestId)
      return {
        body: objectOf({
          checkpoints: entries(asked.checkpoints, done.checkpoints, savedView),
          acks: entries(asked.acks, done.acks, ackedView),
          nacks: entries(asked.nacks, done.nacks, nackedView),
          beat: done.beat === null ? undefined : JSON.stringify(beatView(done.beat)),
          orders: done.orders === null ? undefined : JSON.stringify(ordersView(done.orders)),
          jobs: asked.fetch === null ? undefined : arrayOf(handedOut(handed, asked.fetch, answeredAt)),
          server_time: JSON.stringify(iso(answeredAt)),
          x_waited_ms: String(elapsed(askedAt, answeredAt)),
        }),
      }
    },
  },
]

function exchangeOf(call: Call): Exchange {
  const read = bodyOf(call, EXCHANGE_SHAPE)
  const { worker_id: workerId, listen } = read
  if (read.fetch?.count === 0 && listen === undefined)
    throw badField('fetch.count', 'fetch.count must be a whole number from 1 to 1000; 0 is allowed only with listen.')
  /** Each entry with its text and its place. */
  const each = <Read extends ReportRead, Report>(
    key: 'checkpoints' | 'acks' | 'nacks',
    entries: readonly Read[] = [],
    rest: (entry: Read, source: string, at: string) => Report,
  ): (Report & Fence & { readonly jobId: string; readonly log: LogBatch | null })[] => {
    const sources = entries.length === 0 ? [] : elementsOf(textOfMember(call.text, key) ?? '[]')
    return entries.map((entry, index) => ({
      jobId: entry.job_id,
      ...fenceOf({ ...entry, worker_id: workerId }),
      log: logBatchOf(entry.x_log),
      ...rest(entry, sources[index] ?? '{}', `${key}[${String(index)}].`),
    }))
  }
  return {
    workerId,
    checkpoints: each('checkpoints', read.checkpoints, checkpointOf),
    acks: each('acks', read.acks, (_, source) => ({ result: memberText(source, 'result') ?? null })),
    nacks: each('nacks', read.nacks, failureOf),
    beat: read.beat === undefined ? null : beatReport(workerId, read.beat),
    fetch: read.fetch === undefined ? null : numbered(fetchRequest(workerId, read.fetch, tenantOf(call)), read.seq),
    listen: listen === undefined ? null : listeningOf(workerId, listen),
  }
}

const numbered = (request: FetchRequest, seq: number | undefined): FetchRequest =>
  seq === undefined ? request : { ...request, seq }

type ListenRead = NonNullable<ReturnType<typeof EXCHANGE_SHAPE.read>['listen']>

const listeningOf = (workerId: string, { state, seq, heard = [] }: ListenRead): Listening => ({
  workerId,
  state,
  seq,
  heard: heard.map(({ job_id, x_lease }) => ({ jobId: job_id, lease: x_lease })),
})

const ordersView = ({ state, stop, reregister }: Orders): View => ({
  state,
  x_cancel_jobs: stop.map(stopView),
  ...(reregister ? { x_reregister: true } : {}),
})

type View = Record<string, unknown>

/** What became of each report, in the order in which they were sent. */
function entriesFor(requestId: string) {
  return <T>(
    reports: readonly { readonly jobId: string }[],
    outcomes: readonly Outcome<T>[],
    view: (value: T) => View,
  ): Json =>
    JSON.stringify(
      outcomes.map((outcome, index) => ({
        job_id: reports[index]?.jobId,
        ok: outcome.ok,
        ...(outcome.ok
          ? view(outcome.value)
          : { status: statusOf(outcome.error), error: errorView(outcome.error, requestId) }),
      })),
    )
}

const savedView = ({ job, checkpoint }: Saved): View => ({
  state: job.state,
  sequence: checkpoint.sequence,
  created_at: iso(checkpoint.createdAt),
})

const already = (job: Job): true | undefined => (isRepeat(job) ? true : undefined)

const ackedView = (job: Job): View => ({
  already: already(job),
  state: job.state,
  completed_at: moment(job.completedAt),
})

const nackedView = (job: Job): View => ({
  already: already(job),
  state: job.state,
  attempt: job.attempt,
  max_attempts: job.retry.maxAttempts,
  retry_delay_ms: job.state === 'retryable' ? (job.retryDelayMs ?? undefined) : undefined,
  next_attempt_at: moment(retryComesAt(job)),
  discarded_at: moment(job.discardedAt),
})

const moment = (at: Instant | null): string | undefined => (at === null ? undefined : iso(at))
