/**
 * Tells listeners of commits. Where several servers write the event log, it is read in its own order, so that listeners hear
 * the events of all servers in one sequence.
 */
import type { Instant } from '@curfew/core'
import type { News, Store } from '../../store/store.ts'
import { changeOf } from './changes.ts'
import type { Announcement, Log } from './context.ts'
import type { Committed } from './feature.ts'

const EVENTS_A_PAGE = 500

export class Announcements {
  readonly #store: Store
  readonly #log: Log
  readonly #now: () => Instant
  readonly #listeners = new Set<(announcement: Announcement) => void>()
  /** The last event that listeners were told of, where several servers write the log. */
  #lastEvent: number
  #reading: Promise<void> = Promise.resolve()

  constructor(store: Store, log: Log, now: () => Instant, lastEvent: number) {
    this.#store = store
    this.#log = log
    this.#now = now
    this.#lastEvent = lastEvent
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  listen(listener: (announcement: Announcement) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** This server has committed. */
  committed({ transitions, events, live, now }: Committed): void {
    if (this.#listeners.size === 0) return
    const isShared = this.#store.shared
    this.#tell({ events: isShared ? [] : events, live, changes: transitions.map(changeOf), now })
    if (isShared && events.length > 0) this.#readLog()
  }

  /** Another server has committed; null: some of its news may have been lost. */
  heard(news: News | null): void {
    if (this.#listeners.size === 0) return
    if (news !== null) this.#tell({ events: [], live: news.live, changes: news.changes, now: this.#now() })
    if (news === null || news.lastEvent !== null) this.#readLog()
  }

  /** All data was removed. */
  reset(): void {
    this.#lastEvent = 0
  }

  #tell(announcement: Announcement): void {
    for (const listener of this.#listeners) listener(announcement)
  }

  #readLog(): void {
    const read = async (): Promise<void> => {
      for (let more = true; more;) {
        const events = await this.#store.eventsAfter(this.#lastEvent, EVENTS_A_PAGE)
        more = events.length === EVENTS_A_PAGE
        this.#lastEvent = events.at(-1)?.sequence ?? this.#lastEvent
        if (events.length > 0) this.#tell({ events, live: [], changes: [], now: this.#now() })
      }
    }
    this.#reading = this.#reading.then(read).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'event log read failed; subscribers catch up on the next notification')
    })
  }
}
