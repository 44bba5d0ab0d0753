/**
 * What an enqueue gives: the job as the server answered it, and what can be done with it. The methods are on the prototype:
 * copies, JSON and comparisons see the fields of the answer and nothing else. One field gives way: `result` is the method,
 * which waits for the result.
 */
import type { Explanation } from '@curfew/core'
import type { AnyJob } from '../job/define-job.ts'
import type { Client, JobChanges } from './client.ts'
import type { CurfewEvent } from './events.ts'
import type { RetryChanges, Signalled } from './operators.ts'
import type { WaitOptions } from './result.ts'
import type { JobView } from '../wire/jobs.ts'

export interface JobHandle<Result = unknown> extends JobView {
  /** Waits for the result, as `client.waitForResult` does: checked and typed by the job's output. */
  readonly result: (options?: WaitOptions) => Promise<Result>
  /** The job as it is now. */
  readonly refresh: (options?: Signalled) => Promise<JobView>
  readonly cancel: (options?: Signalled) => Promise<JobView>
  /** A second life for a job that was discarded or cancelled. */
  readonly retry: (options?: Signalled & { readonly changes?: RetryChanges }) => Promise<JobView>
  readonly patch: (changes: JobChanges, options?: Signalled) => Promise<JobView>
  readonly explain: (options?: Signalled) => Promise<Explanation>
  /** The events of this job; they end with it. */
  readonly events: (options?: Signalled) => AsyncIterableIterator<CurfewEvent>
}

class Handle {
  declare readonly id: string
  readonly #client: Client
  readonly #job: AnyJob

  constructor(view: JobView, client: Client, job: AnyJob) {
    const { result: _stored, ...fields } = view
    Object.assign(this, fields)
    this.#client = client
    this.#job = job
  }

  result(options: WaitOptions = {}): Promise<unknown> {
    return this.#client.waitForResult(this.id, { ...options, job: this.#job })
  }

  refresh(options?: Signalled): Promise<JobView> {
    return this.#client.get(this.id, options)
  }

  cancel(options?: Signalled): Promise<JobView> {
    return this.#client.cancel(this.id, options)
  }

  retry(options?: Signalled & { readonly changes?: RetryChanges }): Promise<JobView> {
    return this.#client.retry(this.id, options)
  }

  patch(changes: JobChanges, options?: Signalled): Promise<JobView> {
    return this.#client.patch(this.id, changes, options)
  }

  explain(options?: Signalled): Promise<Explanation> {
    return this.#client.explain(this.id, options)
  }

  events(options: Signalled = {}): AsyncIterableIterator<CurfewEvent> {
    return this.#client.events({ ...options, jobId: this.id })
  }
}

export function handleOf<Result>(view: JobView, client: Client, job: AnyJob): JobHandle<Result> {
  return new Handle(view, client, job) as unknown as JobHandle<Result>
}
