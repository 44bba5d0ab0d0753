/**
 * A stream of events to one reader. It listens first and reads the log second, so that nothing falls between; what was
 * sent from the log is not sent again. The log is read no faster than the reader takes it, and so is the text of news
 * made (`news.ts`). A reader too slow for what happens goes on in the log from where it is, until it has caught up: it
 * gets every stored event, but not events that are never stored.
 */
import {
  eventId,
  isTerminal,
  iso,
  readLife,
  renderEvent,
  renderProgress,
  type Instant,
  type Job,
  type JobState,
  type Json,
  type NewEvent,
} from '@curfew/core'
import type { Engine } from '../../engine/engine.ts'
import type { Announcement } from '../../engine/kernel/context.ts'
import { nextTurn } from '../../engine/kernel/turns.ts'
import { isAnyAborted, onAbort } from '../../engine/kernel/until.ts'
import type { StateChange, StoredEvent } from '../../store/store.ts'
import { matches, type EventFilter } from '../shapes/event-view.ts'
import { MAX_PIECE, News } from './news.ts'
import { Outbox } from './outbox.ts'

export interface Frame {
  /** Null: carries the id of the last stored event, if any was seen. */
  readonly id: string | null
  readonly event: string
  /** One JSON object. */
  readonly data: Json
}

export function frame({ id, event, data }: Frame): string {
  return `${id === null ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`
}

/** Why a stream cannot go on from where its reader was: that event is no longer kept, or never was one of this server. */
export type Gap = 'events_pruned' | 'unknown_event_id'

const KEEP_ALIVE_MS = 15_000
/** How many events are read from the log at a time. */
const CHUNK = 100

interface Place {
  readonly sequence: number
  /** Null where the stream begins before all events. */
  readonly id: string | null
}

export class EventStream {
  readonly #engine: Engine
  readonly #filter: EventFilter
  /** The stream ends when this job does. */
  readonly #endsWith: string | null

  constructor(engine: Engine, filter: EventFilter, endsWith: string | null) {
    this.#engine = engine
    this.#filter = filter
    this.#endsWith = endsWith
  }

  /** From this place in the log (null: from now on; after a gap notice the stream continues with the oldest event that is kept). */
  async *frames(from: number | Gap | null, gone: AbortSignal): AsyncIterable<string> {
    const news = new News()
    /** How far the reader has the events, and the id of the last of them. */
    let place: Place = { sequence: typeof from === 'number' ? from : 0, id: null }
    /** What happens is not listened to: it will be found in the log. */
    let isBehind = false
    let ending: Announcement | null = null
    const textOf = (event: StoredEvent): string => {
      if (event.sequence <= place.sequence) return ''
      place = { sequence: event.sequence, id: eventId(event.at, event.sequence) }
      if (!matches(this.#filter, event)) return ''
      return frame({ id: place.id, event: event.type, data: spread(renderEvent(event), event.data) })
    }
    const changeText = (change: StateChange, { now }: Announcement): string => {
      const told = stateChange(change, now, this.#filter)
      return told === null ? '' : frame({ ...told, id: place.id })
    }
    const partOf = (told: Announcement, part: number): string | null => {
      const { events, live, changes } = told
      const event = events[part]
      if (event !== undefined) return textOf(event)
      const sign = live[part - events.length]
      if (sign !== undefined)
        return matches(this.#filter, sign) ? frame({ id: place.id, event: sign.type, data: liveText(sign) }) : ''
      const change = told === ending ? undefined : changes[part - events.length - live.length]
      return change === undefined ? null : changeText(change, told)
    }
    const forget = this.#engine.listen((told) => {
      if (isBehind || ending !== null) return
      isBehind = !news.add(told)
      if (isBehind || !this.#isOver(told)) return
      ending = told
      news.end()
    })
    const stop = this.#keepAlive(news, gone)
    const { host, store, closing } = this.#engine
    const isGone = (): boolean => gone.aborted || closing.aborted
    const gapFrame = (reason: Gap): string =>
      frame({ id: null, event: 'system.gap', data: JSON.stringify({ reason, resumed_at: iso(this.#engine.now()) }) })
    /** Events may have been pruned that the reader was still to get. */
    const hasGap = async (next: StoredEvent | undefined): Promise<boolean> =>
      next !== undefined && next.sequence > place.sequence + 1 && (await store.eventBounds()).first > place.sequence + 1
    /** The log from here to its end, no faster than the reader takes it, yielding to other work in between. */
    const log = async function* (): AsyncIterable<string> {
      for (;;) {
        const chunk = await store.eventsAfter(place.sequence, CHUNK)
        let text = (await hasGap(chunk[0])) ? gapFrame('events_pruned') : ''
        for (const event of chunk) if (text.length < MAX_PIECE) text += textOf(event)
        const isLast = chunk.length < CHUNK && place.sequence >= (chunk.at(-1)?.sequence ?? 0)
        // What did not fit is read again rather than kept while the reader takes this.
        chunk.length = 0
        if (text !== '') yield text
        if (isLast || isGone()) return
        await nextTurn(host)
      }
    }
    try {
      yield 'retry: 3000\n\n'
      const { first, last } = await store.eventBounds()
      if (from === null) {
        const newest = await store.event(last)
        place = { sequence: last, id: newest === null ? null : eventId(newest.at, newest.sequence) }
      } else if (typeof from === 'string') {
        place = { sequence: first - 1, id: null }
        yield gapFrame(from)
      }
      if (last - place.sequence > CHUNK) isBehind = true
      do {
        if (isBehind) {
          news.clear()
          yield* log()
          isBehind = false
        }
        // Asked before the log is read to its end: of a job that is over by now, the log then has everything.
        const over = await this.#jobThatIsOver()
        yield* log()
        if (over !== null) {
          // The news could only tell the end a second time.
          if (over !== 'removed') yield frame({ ...lastChange(over, this.#engine.now()), id: place.id })
          return
        }
        for (let text = await news.take(partOf); text !== null; text = await news.take(partOf)) {
          yield text
          // A socket that takes all at once would not let anything else happen in between.
          if (text.length >= MAX_PIECE) await nextTurn(host)
        }
      } while (isBehind && !isGone())
      if (ending === null) return
      // Where many servers write the log, a notification may arrive before its events: events that are already stored come first.
      yield* log()
      yield this.#endOf(ending, place)
    } finally {
      forget()
      stop()
    }
  }

  /** The changes of the news that end the stream. */
  #endOf({ changes, now }: Announcement, { id }: Place): string {
    let text = ''
    for (const change of changes) {
      const told = stateChange(change, now, this.#filter)
      if (told !== null) text += frame({ ...told, id })
    }
    return text
  }

  /** Progress frames of one job, then its ending. */
  async *progress(jobId: string, gone: AbortSignal): AsyncIterable<string> {
    const outbox = new Outbox()
    const look = async (): Promise<void> => {
      const job = await this.#engine.store.job(jobId)
      if (job === null) return outbox.end()
      if (!isTerminal(job.state)) {
        if (job.progress !== null) outbox.push(frame({ id: null, event: 'progress', data: renderProgress(job) }))
        return
      }
      const ending = job.state === 'completed' ? 'completed' : job.state === 'cancelled' ? 'cancelled' : 'failed'
      outbox.push(frame({ id: null, event: ending, data: renderProgress(job) }))
      outbox.end()
    }
    // One look at a time: each tells the newest there is.
    let looking: Promise<void> = Promise.resolve()
    const forget = this.#engine.listen(({ changes }) => {
      if (!changes.some(({ id }) => id === jobId)) return
      // A store that is away ends the stream: its reader comes back and asks again.
      looking = looking.then(look).catch(() => {
        outbox.end()
      })
    })
    const stop = this.#keepAlive(outbox, gone)
    try {
      yield 'retry: 3000\n\n'
      await look()
      for (let text = await outbox.take(); text !== null; text = await outbox.take()) yield text
    } finally {
      await looking
      forget()
      stop()
    }
  }

  async #jobThatIsOver(): Promise<Job | 'removed' | null> {
    if (this.#endsWith === null) return null
    const jobId = this.#endsWith
    const job = (await this.#engine.store.job(jobId)) ?? 'removed'
    return job === 'removed' || isTerminal(job.state) ? job : null
  }

  #isOver({ changes }: Announcement): boolean {
    return this.#endsWith !== null && changes.some(({ id, to }) => id === this.#endsWith && isOver(to))
  }

  #keepAlive(to: Pick<Outbox, 'beat' | 'end'>, gone: AbortSignal): () => void {
    const signals = [gone, this.#engine.closing]
    const unhook = onAbort(signals, () => {
      to.end()
    })
    if (isAnyAborted(signals)) to.end()
    let timer = this.#engine.host.setTimer(KEEP_ALIVE_MS, () => {
      beat()
    })
    const beat = (): void => {
      to.beat()
      timer = this.#engine.host.setTimer(KEEP_ALIVE_MS, beat)
    }
    return () => {
      timer.cancel()
      unhook()
    }
  }
}

/** An event that is not in the log, in the same form but without an id of its own. */
function liveText({ type, at, subject, data }: NewEvent): Json {
  return JSON.stringify({
    ...data,
    specversion: '1.0',
    type,
    source: `ojs://curfew/${type.split('.')[0] ?? 'server'}s`,
    time: iso(at),
    subject,
    data,
  })
}

function isOver(state: JobState | null): boolean {
  return state === null || isTerminal(state)
}

/** Streams also carry every change of state. Null for what is none, or not asked for. */
function stateChange(
  { id, queue, type, from, to }: StateChange,
  now: Instant,
  filter: EventFilter,
): Omit<Frame, 'id'> | null {
  if (to === null || from === to) return null
  if (!matches(filter, { type: 'job.state_changed', queue, jobType: type, subject: id })) return null
  const data = { job_id: id, queue, type, from, to, timestamp: iso(now) }
  return { event: 'job.state_changed', data: JSON.stringify(data) }
}

/** The change of state that brought a job to where it is, told afterwards. */
function lastChange(job: Job, now: Instant): Omit<Frame, 'id'> {
  const life = readLife(job)
  const data = {
    job_id: job.id,
    queue: job.queue,
    type: job.type,
    from: life.at(-2)?.to ?? null,
    to: job.state,
    timestamp: iso(life.at(-1)?.at ?? now),
  }
  return { event: 'job.state_changed', data: JSON.stringify(data) }
}

/** The envelope, `data`, and the keys of `data` once more at the top, where the official JS SDK reads them. */
function spread(envelope: Json, data: Json): Json {
  const taken = JSON.parse(envelope) as Record<string, unknown>
  const inner = JSON.parse(data) as Record<string, unknown>
  const extra = Object.entries(inner).filter(([key]) => !Object.hasOwn(taken, key))
  if (extra.length === 0) return envelope
  return `${envelope.slice(0, -1)},${extra.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(',')}}`
}
