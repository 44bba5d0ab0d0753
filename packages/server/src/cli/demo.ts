/**
 * `curfew demo`: a server in memory on which one job or run comes to each kind of ending. The workers are played by this
 * process, over the same HTTP calls as real ones. With `--fast` the clock of the server is turned by hand, so that nothing
 * waits and a busy machine changes nothing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { lengthInWords, whoSet } from '@curfew/core'
import type { Call, Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { wholeOf, type Terminal } from './frame/flags.ts'
import { Remote, type ServerEvent } from './frame/remote.ts'
import { rowsText } from './frame/rows.ts'

interface JobEnd {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly error?: {
    readonly type: string
    readonly limit_ms?: number
    readonly source?: string
    readonly overshoot_ms?: number
  }
}

/** What is to be seen of one job, and how it must end. */
interface Story {
  readonly title: string
  readonly type: string
  readonly queue: string
  readonly limits: Readonly<Record<string, unknown>>
  readonly ends: 'completed' | 'timeout' | 'stalled' | 'enqueue_ttl'
}

const ONCE = { retry: { max_attempts: 1 } }

/** `unit`: the length that all limits are made of, in milliseconds. */
const stories = (unit: number): readonly Story[] => [
  { title: 'finishes in time', type: 'mail.send', queue: 'w1', limits: {}, ends: 'completed' },
  {
    title: 'overruns its timeout and is stopped',
    type: 'report.build',
    queue: 'w1',
    limits: { timeout_ms: 2 * unit, grace_period_ms: unit, ...ONCE },
    ends: 'timeout',
  },
  {
    title: 'gives no sign of life and is stalled',
    type: 'video.encode',
    queue: 'w1',
    limits: { heartbeat_timeout_ms: 2 * unit, ...ONCE },
    ends: 'stalled',
  },
  {
    title: 'loses its worker, and another finishes it',
    type: 'image.resize',
    queue: 'w2',
    limits: {},
    ends: 'completed',
  },
  {
    title: 'grows too old in a paused queue',
    type: 'coupon.apply',
    queue: 'paused',
    limits: { enqueue_ttl_ms: 2 * unit },
    ends: 'enqueue_ttl',
  },
  {
    title: 'is handed back, and finishes in its second attempt',
    type: 'invoice.print',
    queue: 'w1',
    limits: {},
    ends: 'completed',
  },
]

const journey = (unit: number) => ({
  apiVersion: 'v1',
  kind: 'Journey',
  metadata: { name: 'approval', version: '1.0.0' },
  spec: {
    execution: {
      maxDurationSec: Math.max(1, Math.round((3 * unit) / 1_000)),
      onTimeout: { errorCode: 'OUT_OF_BUDGET', reason: 'no decision within the budget' },
    },
    lifecycle: { startMode: 'async' },
    start: 'ask',
    states: { ask: { type: 'timer', timer: { duration: 'PT1H' }, next: 'end' }, end: { type: 'succeed' } },
  },
})

/** A unit of time is taken in so many steps; a demo that takes more than this many is broken. */
const STEPS_OF_UNIT = 10
const MAX_STEPS = 300

class Demo {
  readonly #server: Remote
  readonly #terminal: Terminal
  readonly #unit: number
  readonly #isTurned: boolean
  /** The first moment that was heard of. */
  #beganMs: number | null = null
  readonly #types = new Map<string, string>()

  constructor(server: Remote, terminal: Terminal, unit: number, isTurned: boolean) {
    this.#server = server
    this.#terminal = terminal
    this.#unit = unit
    this.#isTurned = isTurned
  }

  #post(path: string, body?: unknown): Promise<unknown> {
    return this.#server.call('POST', path, body)
  }

  async #register(worker: string, queues: readonly string[]): Promise<void> {
    await this.#post('/ojs/v1/workers/register', {
      worker_id: worker,
      hostname: 'demo',
      pid: process.pid,
      queues,
      concurrency: 10,
    })
  }

  async #take(worker: string, queues: readonly string[]): Promise<readonly { id: string; type: string }[]> {
    const { jobs } = (await this.#post('/ojs/v1/workers/fetch', { worker_id: worker, queues, count: 10 })) as {
      jobs: readonly { id: string; type: string }[]
    }
    return jobs
  }

  async play(signal: AbortSignal): Promise<boolean> {
    const told = stories(this.#unit)
    await this.#register('w-1', ['w1', 'w2'])
    await this.#register('w-2', ['w2'])
    await this.#server.call('PUT', '/api/v1/definitions/approval', journey(this.#unit))
    const ids: string[] = []
    for (const { type, queue, limits } of told) {
      const { job } = (await this.#post('/ojs/v1/jobs', { type, queue, args: [], ...limits })) as {
        job: { id: string }
      }
      ids.push(job.id)
      this.#types.set(job.id, type)
      if (queue === 'paused') await this.#post('/ojs/v1/queues/paused/pause')
    }
    const { journeyId } = (await this.#post('/api/v1/journeys/approval/start', {})) as { journeyId: string }
    // The worker that dies: it takes its job and is not heard of again.
    await this.#take('w-2', ['w2'])
    const held = new Set<string>()
    const returned = new Set<string>()
    for (let steps = 0; ; steps += 1) {
      signal.throwIfAborted()
      for (const { id, type } of await this.#take('w-1', ['w1', 'w2'])) await this.#work(id, type, held, returned)
      await this.#beat([...held])
      const ends = await Promise.all(ids.map((id) => this.#job(id)))
      const run = await this.#server.ask('GET', `/api/v1/journeys/${journeyId}/result`)
      const isOver =
        ends.every(({ state }) => ['completed', 'discarded', 'cancelled'].includes(state)) && run.status === 200
      if (isOver || steps === MAX_STEPS) return this.#tell(told, ends, run.body)
      if (this.#isTurned) await this.#post('/ojs/v1/admin/clock', { advance_ms: this.#unit / STEPS_OF_UNIT })
      else await pause(this.#unit / STEPS_OF_UNIT, undefined, { signal })
    }
  }

  /** What the worker does with a job: nothing is said of those that overrun or stall. */
  async #work(id: string, type: string, held: Set<string>, returned: Set<string>): Promise<void> {
    if (type === 'report.build') held.add(id)
    else if (type === 'invoice.print' && !returned.has(id)) {
      returned.add(id)
      await this.#post('/ojs/v1/workers/nack', { job_id: id, worker_id: 'w-1', requeue: true })
    } else if (type !== 'video.encode')
      await this.#post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w-1', result: 'done' })
  }

  async #beat(ids: readonly string[]): Promise<void> {
    await this.#post('/ojs/v1/workers/heartbeat', {
      worker_id: 'w-1',
      state: 'running',
      active_jobs: ids.length,
      active_job_ids: ids,
    })
  }

  async #job(id: string): Promise<JobEnd> {
    return ((await this.#server.call('GET', `/ojs/v1/jobs/${id}`)) as { job: JobEnd }).job
  }

  /** One line for what concerns a job, a worker or a run. */
  hear({ event, data }: ServerEvent): void {
    const {
      subject = '',
      type = event,
      time = '',
      data: more = {},
    } = data as {
      subject?: string
      type?: string
      time?: string
      data?: Readonly<Record<string, unknown>>
    }
    if (!/^(job|worker|journey)\./.test(type) || /enqueued|state_changed|heartbeat$/.test(type)) return
    const atMs = Date.parse(time)
    this.#beganMs ??= atMs
    const seconds = ((atMs - this.#beganMs) / 1_000).toFixed(1).padStart(5)
    const late = more['overshoot_ms']
    const decided = typeof late === 'number' ? `, decided ${String(late)} ms after the deadline` : ''
    this.#terminal.write(`${seconds} s  ${type.padEnd(18)} ${this.#types.get(subject) ?? subject}${decided}`)
  }

  #tell(told: readonly Story[], ends: readonly JobEnd[], run: unknown): boolean {
    const { phase = 'RUNNING', terminationKind = '' } = (run ?? {}) as { phase?: string; terminationKind?: string }
    let isAsTold = terminationKind === 'Timeout'
    const rows = told.map(({ title, type, ends: wanted }, index) => {
      const end = ends[index]
      const why = end?.state === 'completed' ? 'completed' : (end?.error?.type ?? end?.state ?? '')
      if (why !== wanted && !(wanted === 'enqueue_ttl' && why.includes('ttl'))) isAsTold = false
      const { limit_ms: ms, source, overshoot_ms: over } = end?.error ?? {}
      const limit = ms === undefined ? '' : `${lengthInWords(ms)} ${source === undefined ? '' : whoSet(source)}`
      return [type, title, end?.state ?? '', `${why} ${limit}`.trim(), over === undefined ? '' : `+${String(over)} ms`]
    })
    const journeyRow = [
      'approval',
      'a journey runs out of its budget',
      phase.toLowerCase(),
      terminationKind.toLowerCase(),
      '',
    ]
    this.#terminal.write('')
    this.#terminal.write(rowsText([['TYPE', 'WHAT HAPPENED', 'STATE', 'WHY', 'LATE'], ...rows, journeyRow]))
    return isAsTold
  }
}

async function runDemo({ flags, terminal }: Call): Promise<number> {
  const isFast = flags.has('fast')
  const unit = 5_000
  const { openServer } = await import('../server.ts')
  const server = await openServer({
    data: ':memory:',
    settings: {
      'log-level': 'error',
      'workers.heartbeat-interval': `${String(unit / 2)}ms`,
      'workers.heartbeat-timeout': `${String(3 * unit)}ms`,
      ...(isFast ? { conformance: true, clock: 'manual' } : {}),
    },
  })
  const stop = new AbortController()
  const signals = [stop.signal, ...(terminal.signal === undefined ? [] : [terminal.signal])]
  const signal = AbortSignal.any(signals)
  try {
    const { address } = await server.listen({ port: wholeOf(flags, 'port', 0, 0) })
    terminal.write(`${address}, in memory, 2 workers, 7 kinds of ending; it ends by itself\n`)
    const named = { ...flags, text: (name: string) => (name === 'url' ? address : undefined) }
    const remote = new Remote(named, { ...terminal, env: {} })
    const demo = new Demo(remote, terminal, unit, isFast)
    const hearing = (async () => {
      for await (const event of remote.stream('/ojs/v1/events/stream?channel=all', signal)) demo.hear(event)
    })().catch(() => {})
    const isAsTold = await demo.play(signal)
    stop.abort()
    await hearing
    if (!isAsTold) terminal.note?.('curfew: not every job ended as it should have')
    return isAsTold ? EXIT.fine : EXIT.refused
  } catch (error) {
    if (terminal.signal?.aborted === true) return EXIT.interrupted
    throw error
  } finally {
    stop.abort()
    await server.close()
  }
}

export const DEMO: Command = {
  name: 'demo',
  summary: 'show every kind of ending on a server in memory, within a minute',
  options: {
    fast: { help: 'turn the clock by hand instead of waiting: a few seconds, fit for CI' },
    port: { value: 'N', help: 'port of the server, so that the board can be looked at [any free one]' },
  },
  exits: [130],
  run: runDemo,
}
