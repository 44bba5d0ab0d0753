/** One job of a batch or a workflow: the job with its input and options. */
import type { Job } from './define-job.ts'
import type { EnqueueOptions } from './enqueue-options.ts'

/** One of many: made by `entry`, so that job and input fit. */
export interface EnqueueEntry {
  readonly job: Job<unknown, unknown, unknown, unknown>
  readonly input: unknown
  readonly options?: Omit<EnqueueOptions, 'signal'>
}

export function entry<Sent>(
  job: Job<Sent, unknown, unknown, unknown>,
  input: NoInfer<Sent>,
  options: Omit<EnqueueOptions, 'signal'> = {},
): EnqueueEntry {
  return { job, input, options }
}
