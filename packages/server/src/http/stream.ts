/**
 * A stream of events to one reader. It listens first and reads the log second, so that nothing falls between; what was
 * sent from the log is not sent again. The log is read no faster than the reader takes it. A reader too slow for what
 * happens is let go instead of filling the memory: it comes back with Last-Event-ID and reads on from the log.
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
import type { Engine, Told } from '../engine/engine.ts'
import type { StoredEvent } from '../store/store.ts'
import { matches, type EventFilter } from './event-view.ts'

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
const MOST_BUFFERED = 10_000
const CHUNK = 500

/** Frames waiting for one reader. */
class Outbox {
  #frames: string[] = []
  #wake: (() => void) | null = null
  #ended = false

  push(text: string): void {
    if (text === '' || this.#ended) return
    this.#frames.push(text)
    if (this.#frames.length > MOST_BUFFERED) this.end()
    this.#wake?.()
  }

  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncIterator<string> {
    for (;;) {
      const ready = this.#frames.splice(0)
      if (ready.length > 0) yield ready.join('')
      else if (this.#ended) return
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        this.#wake = null
      }
    }
  }
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

  /** From this place in the log (null: from now on; a gap is told of, and the stream goes on from the oldest there is). */
  async *frames(from: number | Gap | null, gone: AbortSignal): AsyncIterable<string> {
    const outbox = new Outbox()
    let sent = typeof from === 'number' ? from : 0
    let lastId: string | null = null
    let phase: 'past' | 'catching up' | 'live' | 'over' = 'catching up'
    let ending: Told | null = null
    const held: Told[] = []
    const textOf = (event: StoredEvent): string => {
      if (event.sequence <= sent) return ''
      sent = event.sequence
      lastId = eventId(event.at, event.sequence)
      if (!matches(this.#filter, event)) return ''
      return frame({ id: lastId, event: event.type, data: spread(renderEvent(event), event.data) })
    }
    const changesOf = (told: Told): string =>
      stateChanges(told, this.#filter)
        .map((change) => frame({ ...change, id: lastId }))
        .join('')
    const hear = (told: Told): void => {
      for (const event of told.events) outbox.push(textOf(event))
      for (const event of told.live) {
        if (matches(this.#filter, event)) outbox.push(frame({ id: lastId, event: event.type, data: liveText(event) }))
      }
      if (this.#isOver(told)) {
        phase = 'over'
        ending = told
        outbox.end()
      } else outbox.push(changesOf(told))
    }
    const forget = this.#engine.listen((told) => {
      if (phase === 'live') hear(told)
      else if (phase === 'catching up' && held.push(told) > MOST_BUFFERED) outbox.end()
    })
    const stop = this.#keepAlive(outbox, gone)
    const { host, store, closing } = this.#engine
    const isGone = (): boolean => gone.aborted || closing.aborted
    const isLive = (): boolean => phase === 'live'
    /** The log from here to its end, no faster than the reader takes it, and with a turn for everybody else in between. */
    const log = async function* (): AsyncIterable<string> {
      for (;;) {
        const chunk = await store.eventsAfter(sent, CHUNK)
        const text = chunk.map(textOf).join('')
        if (text !== '') yield text
        if (chunk.length < CHUNK || isGone()) return
        await new Promise<void>((resolve) => {
          host.defer(resolve)
        })
      }
    }
    try {
      yield 'retry: 3000\n\n'
      const { first, last } = await this.#engine.store.eventBounds()
      if (from === null) {
        sent = last
        const newest = await this.#engine.store.event(last)
        lastId = newest === null ? null : eventId(newest.at, newest.sequence)
      } else if (typeof from === 'string') {
        sent = first - 1
        yield frame({
          id: null,
          event: 'system.gap',
          data: JSON.stringify({ reason: from, resumed_at: iso(this.#engine.now()) }),
        })
      }
      if (last - sent > CHUNK) {
        // Far behind: what happens meanwhile will be found in the log.
        phase = 'past'
        yield* log()
        phase = 'catching up'
      }
      // Asked before the log is read to its end: of a job that is over by now, the log then has everything.
      const over = await this.#jobThatIsOver()
      yield* log()
      if (over !== null) {
        // What was held meanwhile could only tell the end a second time.
        if (over !== 'removed') outbox.push(frame({ ...lastChange(over, this.#engine.now()), id: lastId }))
        outbox.end()
      } else {
        phase = 'live'
        for (const told of held.splice(0)) if (isLive()) hear(told)
      }
      yield* outbox
      if (ending === null) return
      // Where many servers write the log, a change is told before the events of it: what there is by now comes first.
      yield* log()
      yield changesOf(ending)
    } finally {
      forget()
      stop()
    }
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
      if (changes.some(({ id }) => id === jobId)) looking = looking.then(look)
    })
    const stop = this.#keepAlive(outbox, gone)
    try {
      yield 'retry: 3000\n\n'
      await look()
      yield* outbox
    } finally {
      await looking
      forget()
      stop()
    }
  }

  async #jobThatIsOver(): Promise<Job | 'removed' | null> {
    if (this.#endsWith === null) return null
    const job = (await this.#engine.store.job(this.#endsWith)) ?? 'removed'
    return job === 'removed' || isTerminal(job.state) ? job : null
  }

  #isOver({ changes }: Told): boolean {
    return this.#endsWith !== null && changes.some(({ id, to }) => id === this.#endsWith && isOver(to))
  }

  #keepAlive(outbox: Outbox, gone: AbortSignal): () => void {
    const end = (): void => {
      outbox.end()
    }
    gone.addEventListener('abort', end, { once: true })
    this.#engine.closing.addEventListener('abort', end, { once: true })
    if (gone.aborted || this.#engine.closing.aborted) end()
    let timer = this.#engine.host.setTimer(KEEP_ALIVE_MS, () => {
      beat()
    })
    const beat = (): void => {
      outbox.push(':heartbeat\n\n')
      timer = this.#engine.host.setTimer(KEEP_ALIVE_MS, beat)
    }
    return () => {
      timer.cancel()
      gone.removeEventListener('abort', end)
      this.#engine.closing.removeEventListener('abort', end)
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

/** Streams also carry every change of state. */
function stateChanges({ changes, now }: Told, filter: EventFilter): Omit<Frame, 'id'>[] {
  const frames: Omit<Frame, 'id'>[] = []
  for (const { id, queue, type, from, to } of changes) {
    if (to === null || from === to) continue
    if (!matches(filter, { type: 'job.state_changed', queue, jobType: type, subject: id })) continue
    const data = { job_id: id, queue, type, from, to, timestamp: iso(now) }
    frames.push({ event: 'job.state_changed', data: JSON.stringify(data) })
  }
  return frames
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
