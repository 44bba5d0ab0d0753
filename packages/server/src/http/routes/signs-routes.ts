/** Progress and checkpoints, in the dialects of the specification and of the official SDKs. */
import {
  anything,
  badField,
  iso,
  logBatchOf,
  notFound,
  number,
  object,
  oneNotNull,
  renderProgress,
  ruled,
  text,
  type Checkpoint,
  type Json,
} from '@curfew/core'
import { deleteCheckpoint, progress, saveCheckpoint } from '../../engine/jobs/signs.ts'
import { objectOf, type Answer } from '../api/message.ts'
import { bodyOf, param, type Call, type Route } from '../api/route.ts'
import {
  CHECKPOINT_FIELDS,
  checkpointOf,
  FENCE_SHAPES,
  fenceOf,
  LOG_FIELDS,
  memberText,
} from '../shapes/report-shapes.ts'
import { findJob } from './job-routes.ts'

const MESSAGE = text({ maxLength: 65_536 })
const PROGRESS_SHAPE = ruled(
  object({
    progress: number(),
    message: MESSAGE,
    data: anything(),
    checkpoint: anything(),
    ...LOG_FIELDS,
    ...FENCE_SHAPES,
  }),
  oneNotNull('progress', 'message', 'data', 'checkpoint'),
)
const SDK_PROGRESS_SHAPE = ruled(
  object(
    {
      job_id: text({ min: 1 }),
      percentage: number(),
      message: MESSAGE,
      data: anything(),
      ...LOG_FIELDS,
      ...FENCE_SHAPES,
    },
    { required: ['job_id'] },
  ),
  oneNotNull('percentage', 'message', 'data', 'checkpoint'),
)
const CHECKPOINT_SHAPE = object({ ...CHECKPOINT_FIELDS, ...FENCE_SHAPES }, { required: ['state'] })

export const SIGN_ROUTES: readonly Route[] = [
  {
    method: 'PUT',
    path: '/ojs/v1/jobs/:id/progress',
    aliases: ['POST /ojs/v1/jobs/:id/progress'],
    tag: 'progress',
    summary: 'Report progress (0 to 1); a sign of life',
    body: { shape: PROGRESS_SHAPE },
    handle: (call) => {
      const read = bodyOf(call, PROGRESS_SHAPE)
      return report(call, param(call, 'id'), read.progress ?? null, read)
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/progress',
    tag: 'progress',
    summary: 'Report progress in percent, as the official SDKs do',
    body: { shape: SDK_PROGRESS_SHAPE },
    handle: (call) => {
      const read = bodyOf(call, SDK_PROGRESS_SHAPE)
      return report(call, read.job_id, read.percentage === undefined ? null : read.percentage / 100, read)
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/progress',
    tag: 'progress',
    summary: 'The last progress reported',
    handle: async (call) => {
      const { job } = await findJob(call)
      return { headers: progressHeaders(job.progress?.value ?? null), body: renderProgress(job) }
    },
  },
  {
    method: 'PUT',
    path: '/ojs/v1/jobs/:id/checkpoint',
    aliases: ['POST /ojs/v1/jobs/:id/checkpoint', 'POST /ojs/v1/checkpoints/:id'],
    quirks: ['POST /ojs/v1/ojs/v1/checkpoints/:id'],
    tag: 'checkpoints',
    summary: 'Save where the next attempt continues; the last one saved wins',
    body: { shape: CHECKPOINT_SHAPE },
    handle: async (call) => {
      const read = bodyOf(call, CHECKPOINT_SHAPE)
      const { checkpoint: saved } = await call.engine.run(
        saveCheckpoint(call.engine, {
          jobId: param(call, 'id'),
          ...fenceOf(read),
          log: logBatchOf(read.x_log),
          ...checkpointOf(read, call.text),
        }),
      )
      return {
        body: objectOf({
          job_id: JSON.stringify(saved.jobId),
          sequence: String(saved.sequence),
          created_at: JSON.stringify(iso(saved.createdAt)),
          checkpoint: checkpointView(saved),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/checkpoint',
    tag: 'checkpoints',
    summary: 'The stored checkpoint',
    handle: async (call) => {
      const id = param(call, 'id')
      const saved = await call.engine.read((reads) => reads.checkpoint(id))
      if (saved === null) throw notFound('checkpoint', id)
      return {
        body: objectOf({
          job_id: JSON.stringify(id),
          state: saved.state,
          sequence: String(saved.sequence),
          created_at: JSON.stringify(iso(saved.createdAt)),
          checkpoint: checkpointView(saved),
        }),
      }
    },
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/jobs/:id/checkpoint',
    aliases: ['DELETE /ojs/v1/checkpoints/:id'],
    quirks: ['DELETE /ojs/v1/ojs/v1/checkpoints/:id'],
    tag: 'checkpoints',
    summary: 'Forget the checkpoint; doing it twice is fine',
    handle: async (call) => {
      const id = param(call, 'id')
      await call.engine.run(deleteCheckpoint(id))
      return { body: JSON.stringify({ deleted: true, job_id: id }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/checkpoints/:id/resume',
    quirks: ['GET /ojs/v1/ojs/v1/checkpoints/:id/resume'],
    tag: 'checkpoints',
    summary: 'Whether there is a checkpoint to resume from (durable dialect of the official JS SDK)',
    handle: async (call) => {
      const id = param(call, 'id')
      const saved = await call.engine.read((reads) => reads.checkpoint(id))
      return {
        body: objectOf({
          has_checkpoint: String(saved !== null),
          checkpoint: saved === null ? undefined : checkpointView(saved),
        }),
      }
    },
  },
]

interface ProgressFields {
  readonly message?: string
  readonly worker_id?: string
  readonly attempt?: number
  readonly x_lease?: number
  readonly x_log?: Parameters<typeof logBatchOf>[0]
}

async function report(call: Call, jobId: string, value: number | null, read: ProgressFields): Promise<Answer> {
  const [data, checkpoint] = [memberText(call.text, 'data') ?? null, memberText(call.text, 'checkpoint') ?? null]
  if (value === null && data === null && checkpoint === null && read.message === undefined) {
    throw badField('progress', 'Send at least one of progress, data, checkpoint or message.')
  }
  const job = await call.engine.run(
    progress(call.engine, {
      jobId,
      ...fenceOf(read),
      value,
      message: read.message ?? null,
      data,
      checkpoint,
      log: logBatchOf(read.x_log),
    }),
  )
  return { headers: progressHeaders(job.progress?.value ?? null), body: renderProgress(job) }
}

function progressHeaders(value: number | null): Record<string, string> {
  return { 'Cache-Control': 'no-cache', ...(value === null ? {} : { 'X-OJS-Progress': String(value) }) }
}

function checkpointView(saved: Checkpoint): Json {
  return objectOf({
    state: saved.state,
    sequence: String(saved.sequence),
    step_index: saved.stepIndex === null ? undefined : String(saved.stepIndex),
    metadata: saved.metadata ?? undefined,
    created_at: JSON.stringify(iso(saved.createdAt)),
  })
}
