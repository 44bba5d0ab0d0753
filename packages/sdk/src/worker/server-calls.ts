/** What an attempt asks of the server while it runs. */
import type { AttemptPorts } from '../attempt/attempt.ts'
import type { Client } from '../client/client.ts'
import type { Connection } from '../client/connection.ts'
import type { AnyJob } from '../job/define-job.ts'
import type { EnqueueOptions } from '../job/enqueue-options.ts'
import type { JobLogs } from '../attempt/job-log.ts'
import type { Hold } from '../attempt/report.ts'

export function serverCalls(
  connection: Connection,
  client: Client,
  workerId: string,
  fences: () => boolean,
  logs: JobLogs,
): Pick<AttemptPorts, 'saveCheckpoint' | 'saveProgress' | 'enqueue' | 'log'> {
  const proof = ({ attempt, lease }: Hold): Record<string, unknown> =>
    fences() && lease !== null ? { worker_id: workerId, attempt, x_lease: lease } : {}
  return {
    async saveCheckpoint(hold, state, signal, number) {
      const log = logs.takeAlong(hold)
      await connection.call({
        method: 'PUT',
        path: `/ojs/v1/jobs/${hold.jobId}/checkpoint`,
        idempotent: true,
        signal,
        body: { state, ...log, ...proof(hold), ...(fences() && hold.lease !== null ? { x_seq: number } : {}) },
      })
      logs.arrived(hold, log.x_log)
    },
    async saveProgress(hold, { value, message, data }, signal) {
      const log = logs.takeAlong(hold)
      await connection.call({
        method: 'PUT',
        path: `/ojs/v1/jobs/${hold.jobId}/progress`,
        idempotent: true,
        signal,
        body: {
          progress: value,
          ...(message === undefined ? {} : { message }),
          ...(data === undefined ? {} : { data }),
          ...log,
          ...proof(hold),
        },
      })
      logs.arrived(hold, log.x_log)
    },
    log(hold, lines, dropped) {
      logs.add(hold, lines, dropped)
    },
    enqueue({ jobId }, { type, input, options, defaults }) {
      const job = { type, options: (defaults ?? {}) as AnyJob['options'] } satisfies AnyJob
      const asked = (options ?? {}) as EnqueueOptions
      return client.enqueue(job, input, fences() ? { parent: { jobId }, ...asked } : asked)
    },
  }
}
