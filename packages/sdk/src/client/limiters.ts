/** Limiters in use: of keys, and of queues. What jobs say of them is in `rate-limit.ts`. */
import { get, part, type Caller, type Signalled } from './operators.ts'
import type { Pagination } from '../wire/jobs.ts'
import type { LimiterView } from '../wire/queues.ts'

const PATH = '/ojs/v1/rate-limits'

export class Limiters {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  /** All in use, fetched by and by. */
  async *list(options: Signalled = {}): AsyncGenerator<LimiterView, void, undefined> {
    for (let cursor: string | undefined; ;) {
      const page = await get<{ items: LimiterView[]; pagination?: Pagination }>(this.#caller, PATH, options, {
        cursor,
        limit: 200,
      })
      yield* page.items
      cursor = page.pagination?.next_cursor
      if (cursor === undefined) return
    }
  }

  /** The limiter of a key: its terms, who holds it, who waits, when its window opens. */
  get(key: string, options: Signalled = {}): Promise<LimiterView> {
    return get<LimiterView>(this.#caller, `${PATH}/${part(key)}`, options)
  }
}
