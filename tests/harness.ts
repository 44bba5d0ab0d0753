/**
 * The whole server in one process, without sockets, on a clock turned by hand. Calls go through the same handler the
 * sockets use; `advance` visits every timer on the way, so each deadline is decided at its own instant.
 */
import type { RunnerTestCase } from 'vitest'
import {
  DEFAULT_LIMITS,
  FakeClock,
  instant,
  days,
  Redaction,
  seconds,
  seededRandom,
  type LimitSettings,
  type Random,
  type Stopwatch,
} from '@curfew/core'
import { Access } from '../packages/server/src/engine/access/access.ts'
import { noApiKeys, type ApiKeys } from '../packages/server/src/engine/api-keys.ts'
import { Engine } from '../packages/server/src/engine/engine.ts'
import { manualClock } from '../packages/server/src/engine/kernel/kernel.ts'
import type { EngineSettings } from '../packages/server/src/engine/kernel/context.ts'
import { Meters } from '../packages/server/src/engine/metrics/meters.ts'
import type { Send } from '../packages/server/src/engine/outgoing.ts'
import { openExpressions } from '../packages/server/src/expressions/open-expressions.ts'
import { nodeStopwatch } from '../packages/server/src/host.ts'
import { createApp, type Handler } from '../packages/server/src/http/api/app.ts'
import type { Store } from '../packages/server/src/store/store.ts'
import { openTestStore, quiet } from './stores.ts'

/** Answers are looked at, not trusted: what tests pass on has a type, the rest is anything. */
export interface JobView {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly errors: { type: string; attempt: number; message: string }[]
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [field: string]: any
}

export interface EventView {
  readonly id: string
  readonly type: string
  readonly time: string
  readonly subject: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly data: any
}

export interface Body {
  readonly job: JobView
  readonly jobs: JobView[]
  readonly events: EventView[]
  readonly cursor: string
  readonly items: JobView[]
  readonly jobs_extended: string[]
  readonly warnings: string[]
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [field: string]: any
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body parsed; {} when it is not JSON. */
  readonly body: Body
}

export interface TestOptions {
  readonly clock?: FakeClock
  readonly store?: Store
  readonly random?: Random
  readonly settings?: Partial<EngineSettings>
  readonly limits?: Partial<LimitSettings>
  /** That of the command line. */
  readonly token?: string
  readonly isTls?: boolean
  /** Members whose values people are not shown. */
  readonly redact?: readonly string[]
  /** Sent with every call, beside its own. */
  readonly headers?: Readonly<Record<string, string>>
  /** The engine's clock stands still until POST /admin/clock turns it. */
  readonly manual?: boolean
  /** The network: who is called by the server, and what they answer. */
  readonly send?: Send
  /** What calls of journeys are made with, by name. */
  readonly secrets?: Readonly<Record<string, string>>
  readonly apiKeys?: ApiKeys
  /** How long work takes; as long as it really does, if it is left out. */
  readonly stopwatch?: Stopwatch
}

/** One frame of an event stream; `data` parsed. */
export interface Frame {
  readonly id: string | undefined
  readonly event: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly data: any
}

interface EventPage {
  readonly events: readonly EventView[]
  readonly cursor: string | null
  readonly has_more: boolean
}

/** What one reader of a stream has heard so far. */
export class Listener {
  text = ''
  ended = false
  readonly #gone = new AbortController()

  get signal(): AbortSignal {
    return this.#gone.signal
  }

  async hear(chunks: AsyncIterable<string>): Promise<void> {
    for await (const chunk of chunks) this.text += chunk
    this.ended = true
  }

  frames(): Frame[] {
    const blocks = this.text.split('\n\n').filter((block) => block.includes('event: '))
    return blocks.map((block) => {
      const field = (name: string): string | undefined =>
        block
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2)
      return { id: field('id'), event: field('event') ?? '', data: JSON.parse(field('data') ?? '{}') as unknown }
    })
  }

  hangUp(): void {
    this.#gone.abort()
  }
}

export const TEST_SETTINGS: EngineSettings = {
  limits: DEFAULT_LIMITS,
  retention: { completedMs: days(7), cancelledMs: days(7), discardedMs: days(30), deadLetterMs: days(180) },
  deadLetterMax: 10_000,
  heartbeatIntervalMs: seconds(5),
  workerTimeoutMs: seconds(30),
  requireOwner: false,
  conformance: true,
  allowPrivateNetwork: false,
  platformConfig: {},
  strict: false,
  largestResultBytes: 1_048_576,
  largestCheckpointBytes: 1_048_576,
}

/** The instant so many milliseconds after a test began, as the server writes it. */
export function at(ms: number): string {
  return new Date(Date.UTC(2026, 0, 1, 12) + ms).toISOString()
}

/** Lets everything that was promised so far come true. */
export const idle = quiet

/** Servers of the test that runs. What they logged is shown if it fails: a store that did not serve explains most of it. */
const opened: TestServer[] = []

/** After each test. */
export function showTroubles({ name, result }: RunnerTestCase): void {
  const troubles = opened.splice(0).flatMap(({ logged }) => logged.filter(({ level }) => level !== 'info'))
  if (result?.state === 'fail' && troubles.length > 0) console.error(`${name}: the server logged`, troubles)
}

export class TestServer {
  readonly clock: FakeClock
  readonly engine: Engine
  readonly access: Access
  readonly store: Store
  readonly handler: Handler
  headers: Readonly<Record<string, string>> = {}
  readonly logged: { level: string; fields: object; message: string }[]

  private constructor(
    clock: FakeClock,
    engine: Engine,
    access: Access,
    store: Store,
    handler: Handler,
    logged: TestServer['logged'],
  ) {
    this.clock = clock
    this.engine = engine
    this.access = access
    this.store = store
    this.handler = handler
    this.logged = logged
  }

  static async open(options: TestOptions = {}): Promise<TestServer> {
    const clock = options.clock ?? new FakeClock()
    const store = options.store ?? (await openTestStore())
    const logged: TestServer['logged'] = []
    const log = (level: string) => (fields: object, message: string) => void logged.push({ level, fields, message })
    const settings = { ...TEST_SETTINGS, ...options.settings }
    const engine = await Engine.open({
      store,
      host: clock,
      random: options.random ?? seededRandom(7),
      settings: { ...settings, limits: { ...settings.limits, ...options.limits } },
      log: { info: log('info'), warn: log('warn'), error: log('error') },
      meters: new Meters(),
      expressions: (time) => openExpressions({ host: clock, clock: time, random: seededRandom(11) }),
      stopwatch: options.stopwatch ?? nodeStopwatch,
      ...(options.send === undefined ? {} : { send: options.send }),
      apiKeys: options.apiKeys ?? noApiKeys,
      secrets: { valueOf: (name) => options.secrets?.[name] ?? null },
      ...(options.manual === true ? { manualClock: manualClock(clock.now()) } : {}),
    })
    const access = await Access.open(engine, { token: options.token ?? null }).catch(async (error: unknown) => {
      await engine.close()
      throw error
    })
    const handler = createApp({
      engine,
      info: { version: '0.0.0-test', conformance: settings.conformance, backend: 'sqlite', pid: 1 },
      access,
      ...(options.isTls === true ? { isTls: true } : {}),
      redaction: options.redact === undefined ? null : new Redaction(options.redact),
    })
    const server = new TestServer(clock, engine, access, store, handler, logged)
    server.headers = options.headers ?? {}
    opened.push(server)
    return server
  }

  /** `body` as a value, or as text to send it as it is. */
  async call(method: string, url: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
    const response = await this.handler({
      method,
      url,
      headers: { 'content-type': 'application/openjobspec+json', ...this.headers, ...headers },
      body: text,
      signal: new AbortController().signal,
    })
    if (typeof response.body !== 'string') throw new Error('a stream; use handler directly')
    let parsed: unknown = {}
    try {
      parsed = response.body === '' ? {} : (JSON.parse(response.body) as unknown)
    } catch {
      // metrics and the like
    }
    return { status: response.status, headers: response.headers, text: response.body, body: parsed as Body }
  }

  post(url: string, body?: unknown): Promise<Reply> {
    return this.call('POST', url, body)
  }

  get(url: string, headers: Record<string, string> = {}): Promise<Reply> {
    return this.call('GET', url, undefined, headers)
  }

  /** Turns the clock; whatever falls due on the way is decided at its own instant. */
  async advance(byMs: number): Promise<void> {
    const target = instant(this.clock.now() + byMs)
    await idle()
    for (let next = this.clock.nextTimerAt(); next !== null && next <= target; next = this.clock.nextTimerAt()) {
      this.clock.advance(Math.max(0, next - this.clock.now()))
      await idle()
    }
    this.clock.advance(Math.max(0, target - this.clock.now()))
    await idle()
  }

  async close(): Promise<void> {
    const closing = this.access.close().then(() => this.engine.close())
    await this.advance(0)
    await closing
  }

  // ---- Words the stories use ----

  async enqueue(job: Record<string, unknown> = {}): Promise<string> {
    const reply = await this.post('/ojs/v1/jobs', { type: 'test.job', args: [], ...job })
    if (reply.status !== 201) throw new Error(`enqueue answered ${String(reply.status)}: ${reply.text}`)
    return reply.body.job.id
  }

  async fetch(body: Record<string, unknown> = {}): Promise<Reply> {
    return this.post('/ojs/v1/workers/fetch', { queues: ['default'], ...body })
  }

  async job(id: string): Promise<JobView> {
    return (await this.get(`/ojs/v1/jobs/${id}`)).body.job
  }

  /** Enqueues a job and hands it to a worker; gives the job as the worker got it. */
  async start(job: Record<string, unknown> = {}, fetch: Record<string, unknown> = {}): Promise<JobView> {
    await this.enqueue(job)
    const { body } = await this.fetch({ queues: [job['queue'] ?? 'default'], ...fetch })
    return body.job
  }

  ack(jobId: string, more: Record<string, unknown> = {}): Promise<Reply> {
    return this.post('/ojs/v1/workers/ack', { job_id: jobId, ...more })
  }

  nack(jobId: string, error: Record<string, unknown> = { message: 'boom' }, more: object = {}): Promise<Reply> {
    return this.post('/ojs/v1/workers/nack', { job_id: jobId, error, ...more })
  }

  register(workerId: string, more: Record<string, unknown> = {}): Promise<Reply> {
    return this.post('/ojs/v1/workers/register', {
      worker_id: workerId,
      hostname: 'h',
      pid: 1,
      queues: ['default'],
      concurrency: 10,
      ...more,
    })
  }

  beat(workerId: string, jobIds: readonly string[], more: Record<string, unknown> = {}): Promise<Reply> {
    return this.post('/ojs/v1/workers/heartbeat', {
      worker_id: workerId,
      state: 'running',
      active_jobs: jobIds.length,
      active_job_ids: jobIds,
      ...more,
    })
  }

  async eventTypes(subject?: string): Promise<string[]> {
    return (await this.events(subject)).map(({ type }) => type)
  }

  async events(subject?: string): Promise<EventView[]> {
    const all: EventView[] = []
    for (let after = ''; ;) {
      const { events, cursor, has_more } = (await this.get(`/ojs/v1/events?limit=1000${after}`))
        .body as unknown as EventPage
      all.push(...events)
      if (!has_more) return all.filter((event) => subject === undefined || event.subject === subject)
      after = `&after=${encodeURIComponent(cursor ?? '')}`
    }
  }

  /** The value of a metric with exactly these labels; 0 when it was never counted. */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const { text } = await this.get('/metrics')
    const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`)
    for (const line of text.split('\n')) {
      const [, found, inside = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
      if (found !== name) continue
      const given = inside === '' ? [] : inside.split(/,(?=\w+=")/)
      if (given.length === wanted.length && wanted.every((label) => given.includes(label))) return Number(value)
    }
    return 0
  }

  /** Opens a stream and listens to it in the background. */
  async listen(url: string, headers: Record<string, string> = {}): Promise<Listener> {
    const listener = new Listener()
    const request = { method: 'GET', url, headers, body: '', signal: listener.signal }
    const response = await this.handler(request)
    if (typeof response.body === 'string') throw new Error(`no stream: ${response.body}`)
    void listener.hear(response.body)
    await idle()
    return listener
  }
}
