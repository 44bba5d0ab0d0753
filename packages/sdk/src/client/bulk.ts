/** One action on many jobs: cancel, retry or delete, by their ids or by what they have in common. */
import type { Connection } from './connection.ts'
import { InputError, UnsupportedError } from '../errors.ts'
import { matchOnWire, type JobMatch } from './job-filter.ts'
import type { Signalled } from './operators.ts'
import { isFine, isRecord, parsed } from './refusal.ts'
import { unlessAborted } from '../waiting.ts'
import type { BulkAction, BulkItem, BulkPlan, BulkReport } from '../wire/bulk.ts'

/** Which jobs: those with these ids (up to 1 000), those that match, or all that the action can be done to. */
export type JobsMeant =
  | { readonly ids: readonly string[]; readonly filter?: never; readonly all?: never }
  | { readonly filter: JobMatch; readonly ids?: never; readonly all?: never }
  | { readonly all: true; readonly ids?: never; readonly filter?: never }

export interface BulkOptions extends Signalled {
  /** At most so many. */
  readonly limit?: number
  /** With `ids`: all of them or none. */
  readonly atomic?: boolean
}

interface BulkAnswer {
  readonly total_matched: number
  readonly skipped: number
  readonly items: readonly BulkItem[]
  readonly cancelled?: number
  readonly retried?: number
  readonly deleted?: number
}

export class Bulk {
  readonly #connection: Connection
  readonly #opened: <T>(run: () => Promise<T>) => Promise<T>

  constructor(connection: Connection, opened: <T>(run: () => Promise<T>) => Promise<T>) {
    this.#connection = connection
    this.#opened = opened
  }

  /** Cancels what is not over. A filter without a state means available and scheduled jobs. */
  cancel(meant: JobsMeant, options: BulkOptions = {}): Promise<BulkReport> {
    return this.#act('cancel', meant, options)
  }

  /** A second life for discarded jobs; ends the backoff of retryable ones. */
  retry(meant: JobsMeant, options: BulkOptions = {}): Promise<BulkReport> {
    return this.#act('retry', meant, options)
  }

  /** Removes jobs that are over, for good. */
  delete(meant: JobsMeant, options: BulkOptions = {}): Promise<BulkReport> {
    return this.#act('delete', meant, options)
  }

  /** What the action would do, chosen by the code that would do it. Nothing is changed. */
  plan(action: BulkAction, meant: JobsMeant, { signal, ...options }: BulkOptions = {}): Promise<BulkPlan> {
    return this.#opened(async () => {
      // A server that does not know the dry run would act.
      if (!(await unlessAborted(this.#connection.supports('job-filters'), signal)))
        throw new UnsupportedError('The server does not announce dry runs: it would act.', { action })
      const body = { ...bodyOf(meant, options), dry_run: true }
      const path = `/ojs/v1/jobs/bulk/${action}`
      return this.#connection.call<BulkPlan>({ method: 'POST', path, body, idempotent: true, signal })
    })
  }

  #act(action: BulkAction, meant: JobsMeant, { signal, ...options }: BulkOptions): Promise<BulkReport> {
    return this.#opened(async () => {
      const body = bodyOf(meant, options)
      const path = `/ojs/v1/jobs/bulk/${action}`
      const answer = await this.#connection.send({ method: 'POST', path, body, idempotent: false, signal })
      // 422 when all were skipped: an answer like the others.
      const read = typeof answer.body === 'string' ? parsed(answer.body) : undefined
      if (!isFine(answer.status) && !(answer.status === 422 && isRecord(read) && 'items' in read))
        throw this.#connection.refusal(answer)
      const { total_matched: matched, skipped, items, cancelled, retried, deleted } = read as BulkAnswer
      return { matched, done: cancelled ?? retried ?? deleted ?? 0, skipped, items }
    })
  }
}

function bodyOf(meant: JobsMeant, { limit, atomic }: Omit<BulkOptions, 'signal'>): Record<string, unknown> {
  const { ids, filter, all } = meant
  if ([ids, filter, all].filter((said) => said !== undefined).length !== 1)
    throw new InputError('Name the jobs with ids, filter or all, one of them.', { field: 'ids' })
  return {
    job_ids: ids,
    filter: ids === undefined ? matchOnWire(filter ?? {}) : undefined,
    confirm: all,
    limit,
    atomicity: atomic === true ? 'atomic' : undefined,
  }
}
