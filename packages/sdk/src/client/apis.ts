/** Definitions of kind Api: one request, one answer, by their deadline at the latest. */
import type { Connection } from './connection.ts'
import { toMillis, type Duration } from '../durations.ts'
import { ApiFailedError } from '../errors.ts'
import type { JourneyRef } from '../journey/journey.ts'
import type { RequestParts } from './journeys.ts'
import { part } from './operators.ts'
import { jsonText } from '../plain-json.ts'
import { isFine, parsed } from './refusal.ts'

export interface ApiCallOptions extends RequestParts {
  /** How long to wait for the answer; that of the client unless set. */
  readonly timeout?: Duration
}

export class Apis {
  readonly #connection: Connection
  readonly #opened: <T>(run: () => Promise<T>) => Promise<T>

  constructor(connection: Connection, opened: <T>(run: () => Promise<T>) => Promise<T>) {
    this.#connection = connection
    this.#opened = opened
  }

  /** What it answers. Throws an ApiFailedError with the status, the code and the body of any other answer. */
  call<In, Out>(api: JourneyRef<In, Out> | string, input: NoInfer<In>, options: ApiCallOptions = {}): Promise<Out> {
    return this.#opened(async () => {
      const name = typeof api === 'string' ? api : api.name
      const { headers, query = {}, timeout, signal } = options
      const answer = await this.#connection.send({
        method: 'POST',
        path: `/api/v1/apis/${part(name)}`,
        json: jsonText(input, `The input of ${name}`),
        query,
        idempotent: false,
        signal,
        ...(headers === undefined ? {} : { headers }),
        ...(timeout === undefined ? {} : { timeoutMs: toMillis(timeout, 'timeout') }),
      })
      if (isFine(answer.status)) return this.#connection.read<Out>(answer)
      const body = typeof answer.body === 'string' ? (parsed(answer.body) ?? answer.body) : null
      throw new ApiFailedError(this.#connection.refusal(answer), body)
    })
  }
}
