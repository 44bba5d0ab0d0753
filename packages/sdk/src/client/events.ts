/**
 * Events as they happen, while there is a listener. A stream that breaks, ends or falls silent is opened again, after
 * the last event that was heard; where the server cannot go back that far, or nothing was heard yet, a `system.gap` says
 * that something may be missing. Only a refusal, the end of the one job listened to, or the listener ends it.
 */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { Connection } from './connection.ts'
import { NetworkError, RequestError } from '../errors.ts'
import { isPassing, isRecord, parsed } from './refusal.ts'
import { backoffMs, linked, onAbort, sleep } from '../waiting.ts'

export interface EventFilter {
  /** `job.completed`, or all that begin so: `job.*`. */
  readonly types?: readonly string[]
  readonly queues?: readonly string[]
  readonly jobTypes?: readonly string[]
  /** Only this job; the events end with it. */
  readonly jobId?: string
  /** The id of an event: events after it are delivered first. */
  readonly after?: string
  readonly signal?: AbortSignal
}

export interface CurfewEvent {
  /** Null for events that are not stored: `job.state_changed`, heartbeats, `system.gap`. */
  readonly id: string | null
  readonly type: string
  readonly time: string | null
  /** What it is about: the id of a job, the name of a queue, … */
  readonly subject: string | null
  readonly data: Readonly<Record<string, unknown>>
}

/** The server says something every 15 s, if only that it is there. */
const SILENCE_MS = 45_000
const FIRST_BACKOFF_MS = 500
const MAX_BACKOFF_MS = 30_000
const ENDINGS = ['completed', 'cancelled', 'discarded']
const BEGINNINGS = ['enqueued', 'scheduled', 'started']

export function listen(
  connection: Connection,
  filter: EventFilter,
  closing: AbortSignal,
): AsyncIterableIterator<CurfewEvent> {
  const { controller, unlink } = linked(filter.signal, closing)
  const events = new Ear(connection, filter, controller.signal).events()
  // A generator that waits would hear of its end only when the waiting is over: the signal ends the waiting.
  return {
    async next() {
      const step = await events.next()
      if (step.done === true) unlink()
      return step
    },
    async return() {
      controller.abort()
      unlink()
      await events.return(undefined)
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

class Ear {
  readonly #connection: Connection
  readonly #filter: EventFilter
  readonly #signal: AbortSignal
  readonly #path: string
  #lastId: string | null
  #failures = 0
  /** The one job that is listened to has had its last word. */
  #isOver = false

  constructor(connection: Connection, filter: EventFilter, signal: AbortSignal) {
    this.#connection = connection
    this.#filter = filter
    this.#signal = signal
    this.#lastId = filter.after ?? null
    this.#path = pathOf(filter)
  }

  async *events(): AsyncGenerator<CurfewEvent, void, undefined> {
    const { host, random, log } = this.#connection
    for (let opened = 0; !this.#signal.aborted;) {
      const { controller, unlink } = linked(this.#signal)
      try {
        const chunks = await this.#open(controller.signal)
        if (opened > 0 && this.#lastId === null) yield gap(host.wallMs())
        opened += 1
        for await (const event of this.#read(chunks)) {
          this.#notice(event)
          if (this.#matches(event)) yield event
        }
        if (this.#isOver) return
      } catch (error) {
        if (this.#signal.aborted) return
        const isPassingBy = error instanceof NetworkError || (error instanceof RequestError && isPassing(error.status))
        if (!isPassingBy) throw error
        log.debug({ err: error.message }, 'the stream of events broke; opening it again')
      } finally {
        controller.abort()
        unlink()
      }
      this.#failures += 1
      const waitMs = backoffMs(this.#failures, random, FIRST_BACKOFF_MS, MAX_BACKOFF_MS)
      await sleep(host, waitMs, this.#signal).catch(() => {})
    }
  }

  #open(signal: AbortSignal): Promise<AsyncIterable<string>> {
    const headers: Record<string, string> = this.#lastId === null ? {} : { 'last-event-id': this.#lastId }
    return this.#connection.stream(this.#path, headers, signal)
  }

  async *#read(chunks: AsyncIterable<string>): AsyncGenerator<CurfewEvent, void, undefined> {
    const heard: CurfewEvent[] = []
    const parser = createParser({
      onEvent: (message) => {
        if (message.id !== undefined && message.id !== '') this.#lastId = message.id
        heard.push(eventFrom(message))
      },
    })
    for await (const chunk of this.#unlessSilent(chunks)) {
      this.#failures = 0
      parser.feed(chunk)
      yield* heard.splice(0)
    }
  }

  /** The chunks, until nothing has come for too long. */
  async *#unlessSilent(chunks: AsyncIterable<string>): AsyncGenerator<string, void, undefined> {
    const { host } = this.#connection
    const reader = chunks[Symbol.asyncIterator]()
    try {
      for (;;) {
        const step = await new Promise<IteratorResult<string>>((resolve, reject) => {
          const timer = host.setTimer(SILENCE_MS, () => {
            giveUp('The stream of events fell silent.')
          })
          const stop = (): void => {
            giveUp('The last listener left.')
          }
          const finish = (): void => {
            timer.cancel()
            unhook()
          }
          const giveUp = (why: string): void => {
            finish()
            reject(new NetworkError(why))
          }
          const unhook = onAbort([this.#signal], stop)
          if (this.#signal.aborted) stop()
          else reader.next().then(resolve, reject).finally(finish)
        })
        if (step.done === true) return
        yield step.value
      }
    } finally {
      // Not waited for: a reader that waits itself answers only when its stream ends.
      reader.return?.()?.catch(() => {})
    }
  }

  /** Asked for at the server; looked at again for servers and channels that know fewer filters. */
  #matches({ type, subject, data }: CurfewEvent): boolean {
    const { types = [], queues = [], jobTypes = [], jobId } = this.#filter
    if (type.startsWith('system.')) return true
    if (jobId !== undefined && subject !== jobId && data['job_id'] !== jobId) return false
    if (queues.length > 0 && !queues.includes(String(data['queue']))) return false
    const jobType = data['job_type'] ?? (type === 'job.state_changed' ? data['type'] : undefined)
    if (jobTypes.length > 0 && !jobTypes.includes(String(jobType))) return false
    return (
      types.length === 0 ||
      types.some((wanted) => (wanted.endsWith('*') ? type.startsWith(wanted.slice(0, -1)) : type === wanted))
    )
  }

  #notice({ type, data }: CurfewEvent): void {
    if (this.#filter.jobId === undefined) return
    const word = type === 'job.state_changed' ? String(data['to']) : type.replace(/^job\./, '')
    if (ENDINGS.includes(word)) this.#isOver = true
    // Retried by hand.
    else if (BEGINNINGS.includes(word)) this.#isOver = false
  }
}

function pathOf({ types, queues, jobTypes, jobId }: EventFilter): string {
  const query = new URLSearchParams({ channel: jobId === undefined ? 'all' : `job:${jobId}` })
  for (const [name, values] of Object.entries({ types, queues, job_types: jobTypes }))
    if (values !== undefined && values.length > 0) query.set(name, values.join(','))
  return `/ojs/v1/events/stream?${query.toString()}`
}

/** Stored events come in their envelope; what is only told live comes as it is. */
function eventFrom({ event, data }: EventSourceMessage): CurfewEvent {
  const read = parsed(data)
  const body = isRecord(read) ? read : {}
  const text = (key: string): string | null => (typeof body[key] === 'string' ? body[key] : null)
  const isEnvelope = isRecord(body['data'])
  return {
    id: text('id'),
    type: event ?? text('type') ?? 'message',
    time: text('time') ?? text('timestamp') ?? text('resumed_at'),
    subject: text('subject') ?? text('job_id'),
    data: isEnvelope ? (body['data'] as CurfewEvent['data']) : body,
  }
}

/** Between two connections, without a place to go back to. */
function gap(wallMs: number): CurfewEvent {
  const time = new Date(wallMs).toISOString()
  return { id: null, type: 'system.gap', time, subject: null, data: { reason: 'reconnected', resumed_at: time } }
}
