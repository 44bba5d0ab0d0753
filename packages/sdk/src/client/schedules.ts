/** Schedules that journeys have made: looked at, and removed. */
import { get, part, type Caller, type Signalled } from './operators.ts'
import type { ScheduleView } from '../wire/journeys.ts'

const PATH = '/api/v1/schedules'
const PAGE = 200

export class Schedules {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  /** By name, fetched by and by. */
  async *list(options: Signalled = {}): AsyncGenerator<ScheduleView, void, undefined> {
    type Page = { readonly items: readonly ScheduleView[]; readonly nextPageToken: string | null }
    for (let pageToken: string | undefined; ;) {
      const page = await get<Page>(this.#caller, PATH, options, { limit: PAGE, pageToken })
      yield* page.items
      pageToken = page.nextPageToken ?? undefined
      if (pageToken === undefined) return
    }
  }

  /** When its next run begins, or which run is under way. */
  get(id: string, options: Signalled = {}): Promise<ScheduleView> {
    return get<ScheduleView>(this.#caller, `${PATH}/${part(id)}`, options)
  }

  /** Starts no more runs; one that is under way goes on. */
  delete(id: string, { signal }: Signalled = {}): Promise<ScheduleView> {
    return this.#caller.call({ method: 'DELETE', path: `${PATH}/${part(id)}`, idempotent: false, signal })
  }
}
