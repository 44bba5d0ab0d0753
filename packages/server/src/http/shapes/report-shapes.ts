/**
 * What a worker says of its attempts on the wire: ACK, FAIL and checkpoints. Results, details and states of checkpoints
 * are cut out of the text as it was written; `source` is the text of the object that holds them.
 */
import {
  anyObject,
  anything,
  badField,
  either,
  flag,
  list,
  LOG_SHAPE,
  MOMENT_SHAPE,
  textOfMember,
  number,
  object,
  text,
  whole,
  WORKER_ID_SHAPE,
  type Fence,
  type Json,
  type ReportedError,
} from '@curfew/core'
import type { Nack } from '../../engine/jobs/reports.ts'
import type { CheckpointCall } from '../../engine/jobs/signs.ts'

export const JOB_ID = text({ min: 1, maxLength: 255 })

/** What the attempt has logged since it was last heard of. */
export const LOG_FIELDS = { x_log: LOG_SHAPE } as const

/** The lease, which proves which attempt a report is about. */
export const FENCE_SHAPES = { worker_id: WORKER_ID_SHAPE, attempt: whole(0), x_lease: whole(0) } as const

export function fenceOf(read: { worker_id?: string; attempt?: number; x_lease?: number }): Fence {
  return { workerId: read.worker_id, attempt: read.attempt, lease: read.x_lease }
}

const ERROR_SHAPE = object(
  {
    type: text({ maxLength: 1024 }),
    code: text({ maxLength: 1024 }),
    message: text({ maxLength: 65_536 }),
    retryable: flag(),
    x_retry_at: MOMENT_SHAPE,
    details: anything(),
    backtrace: either(text(), list(text()), (value) => typeof value === 'string'),
    timeout_kind: text(),
    limit_seconds: number(),
    elapsed_seconds: number(),
  },
  { required: [] },
)

export const ACK_FIELDS = { result: anything(), ...LOG_FIELDS } as const
/** A report of a failure says what failed; one that only hands the job back need not, and may say until when. */
export const ERROR_OR_REQUEUE = {
  anyOf: [
    { required: ['error'], properties: { error: { type: 'object' }, x_not_before: { type: 'null' } } },
    { required: ['requeue'], properties: { requeue: { const: true } } },
  ],
}
/** `x_not_before`: of a hand-back, when the job may be handed out again. */
export const NACK_FIELDS = {
  error: ERROR_SHAPE,
  requeue: flag(),
  x_not_before: MOMENT_SHAPE,
  ...LOG_FIELDS,
} as const
export const CHECKPOINT_FIELDS = {
  state: anything(),
  step_index: whole(0),
  metadata: anyObject(),
  x_seq: whole(0),
  ...LOG_FIELDS,
} as const

/** A member as it was written; `null` is not sent. */
export function memberText(source: string, key: string): Json | undefined {
  const value = source === '' ? undefined : textOfMember(source, key)
  return value === 'null' ? undefined : value
}

type ErrorRead = ReturnType<typeof ERROR_SHAPE.read>

/** `at` is where the report stands in the request. */
export function failureOf(
  read: { readonly error?: ErrorRead; readonly requeue?: boolean; readonly x_not_before?: string },
  source: string,
  at = '',
): Pick<Nack, 'error' | 'requeue' | 'notBefore'> {
  const requeue = read.requeue ?? false
  const field = `${at}x_not_before`
  if (read.x_not_before !== undefined && !requeue)
    throw badField(field, `${field} needs requeue: true; after a failure the retry policy says when.`)
  const later = read.x_not_before === undefined ? {} : { notBefore: read.x_not_before }
  if (read.error !== undefined) return { error: reportedError(read.error, detailsText(source)), requeue, ...later }
  if (!requeue) throw badField(`${at}error`, `${at}error is required unless requeue is true.`)
  return { error: null, requeue, ...later }
}

export function checkpointOf(
  read: { readonly step_index?: number; readonly x_seq?: number },
  source: string,
  at = '',
): Pick<CheckpointCall, 'state' | 'stepIndex' | 'metadata' | 'seq'> {
  const state = memberText(source, 'state')
  if (state === undefined) throw badField(`${at}state`, `${at}state is required: any JSON value.`)
  const { step_index: stepIndex = null, x_seq: seq = null } = read
  return { state, stepIndex, metadata: memberText(source, 'metadata') ?? null, seq }
}

const MAX_BACKTRACE = 10_000
const MAX_FRAMES = 50

/** `error.details` as it was written. */
function detailsText(source: string): Json | undefined {
  return textOfMember(textOfMember(source, 'error') ?? '{}', 'details')
}

function reportedError(read: ErrorRead, details: Json | undefined): ReportedError {
  const frames = typeof read.backtrace === 'string' ? read.backtrace.split('\n') : read.backtrace
  let room = MAX_BACKTRACE
  const backtrace = frames?.slice(0, MAX_FRAMES).filter((frame) => (room -= frame.length) >= 0)
  return {
    ...(read.type === undefined ? {} : { type: read.type }),
    ...(read.code === undefined ? {} : { code: read.code }),
    message: read.message ?? '',
    ...(read.retryable === undefined ? {} : { retryable: read.retryable }),
    ...(read.x_retry_at === undefined ? {} : { retryAt: read.x_retry_at }),
    ...(read.details === undefined ? {} : { details: read.details }),
    ...(read.details === undefined || details === undefined ? {} : { detailsText: details }),
    ...(backtrace === undefined ? {} : { backtrace }),
  }
}
