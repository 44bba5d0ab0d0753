/** Processes with workers of the SDK on a real server, and the journal that their handlers write. */
import { closeSync, fstatSync, openSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { runNode, ServerProcess, temporaryDirectory, until, type NodeProcess } from '../server-process.ts'

export type Isolation = 'inline' | 'thread' | 'process'
export const ISOLATIONS: readonly Isolation[] = ['inline', 'thread', 'process']

/** Beats are quick and a worker is dead soon, with room for a busy machine. */
export const QUICK_BEATS = ['--workers-heartbeat-interval', '200ms', '--workers-heartbeat-timeout', '6s']
export const QUICK_TIMEOUT_MS = 6_000

/** More than a process takes to start on a busy machine. */
const START_MS = 60_000
const OVER = ['completed', 'discarded', 'cancelled']
const BEGUN: Readonly<Record<string, string>> = { listening: 'it obeys signals', ready: 'its workers are ready' }

/** The machine's monotonic clock, which all processes share. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6

let names = 0
/** A name that no other test uses. */
export const fresh = (what: string): string => `${what}-${String(process.pid)}-${String((names += 1))}`

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type JobView = any

export interface MemberOptions {
  /** Where the workers find the server; the server itself unless a link stands between. */
  readonly url?: string
  readonly isolation?: Isolation
  readonly queues?: readonly string[]
  readonly concurrency?: number
  readonly drain?: string
  readonly limits?: Readonly<Record<string, string>>
  /** So many workers in one process, each with an id and a queue of its own (`<queue>-<index>`). */
  readonly workers?: number
  /** False: the process calls start() and stop() itself, and SIGUSR2 means stop(). */
  readonly ownSignals?: boolean
  /** What to wait for. */
  readonly until?: 'listening' | 'ready'
}

export interface WorkerAt {
  readonly id: string
  readonly queue: string
}

/** A process of the crew. `id` and `queue` are those of its first worker. */
export interface Member extends NodeProcess, WorkerAt {
  readonly workers: readonly WorkerAt[]
  /** Until it has written this line to its standard output. */
  said(line: string): Promise<void>
}

export class Crew {
  readonly server: ServerProcess
  readonly journal = new Journal()

  constructor(server: ServerProcess) {
    this.server = server
  }

  /** On a server of its own, which ends with the test. */
  static async open(flags: readonly string[] = []): Promise<Crew> {
    const server = await ServerProcess.start({ flags })
    onTestFinished(() => server.kill())
    return new Crew(server)
  }

  async member(options: MemberOptions = {}): Promise<Member> {
    const { isolation = 'inline', concurrency = 10, drain = '25s', workers: count = 1, ownSignals = true } = options
    const workers = Array.from({ length: count }, (_, index) => {
      const id = fresh('worker')
      const base = options.queues ?? [fresh('queue')]
      return { id, concurrency, drain, queues: count === 1 ? base : base.map((name) => `${name}-${String(index)}`) }
    })
    const limits = { timeout: '2m', gracePeriod: '1s', ...options.limits }
    const url = options.url ?? this.server.url
    const script = fileURLToPath(new URL('./crew/worker.mjs', import.meta.url))
    const told = { url, journal: this.journal.file, workers, isolation, limits, ownSignals }
    const child = runNode(script, { CREW: JSON.stringify(told) })
    onTestFinished(async () => {
      child.signal('SIGKILL')
      await child.exited
    })
    const said = (line: string): Promise<void> =>
      until(
        `${BEGUN[line] ?? line}: ${child.output.stderr}`,
        () => {
          if (child.output.stdout.split('\n').includes(line)) return true
          if (child.ended() !== null)
            throw new Error(`a worker ended before it said "${line}":\n${child.output.stderr}`)
          return false
        },
        START_MS,
      ).then(() => {})
    await said(options.until ?? 'ready')
    const places = workers.map(({ id, queues }) => ({ id, queue: queues[0] ?? '' }))
    return Object.assign(child, { id: places[0]?.id ?? '', queue: places[0]?.queue ?? '', workers: places, said })
  }

  /** So many processes; a few at a time, because a start takes a processor for a while. */
  async members(count: number, options: (index: number) => MemberOptions = () => ({}), width = 5): Promise<Member[]> {
    const found: Member[] = []
    for (let first = 0; first < count; first += width) {
      const indexes = Array.from({ length: Math.min(width, count - first) }, (_, index) => first + index)
      found.push(...(await Promise.all(indexes.map((index) => this.member(options(index))))))
    }
    return found
  }

  /** A job whose handler works for so long; answers its id. */
  async job(queue: string, ms: number, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const { id } = (await this.server.enqueue({ type: 'crew.work', queue, args: [ms], ...more })) as { id: string }
    return id
  }

  jobs(count: number, queue: string, ms: number, more: Readonly<Record<string, unknown>> = {}): Promise<string[]> {
    return Promise.all(Array.from({ length: count }, () => this.job(queue, ms, more)))
  }

  /** All at once, so that one answer can hand out all of them. */
  async batch(
    count: number,
    queue: string,
    ms: number,
    more: Readonly<Record<string, unknown>> = {},
  ): Promise<string[]> {
    const jobs = Array.from({ length: count }, () => ({ type: 'crew.work', queue, args: [ms], ...more }))
    const { status, text, body } = await this.server.post('/ojs/v1/jobs/batch', { jobs })
    if (status !== 201) throw new Error(`the batch was answered ${String(status)}: ${text}`)
    return (body.jobs as { id: string }[]).map(({ id }) => id)
  }

  views(ids: readonly string[]): Promise<JobView[]> {
    return Promise.all(ids.map((id) => this.server.job(id)))
  }

  /** Until all have begun (so often), by the journal. */
  async begun(ids: readonly string[], runs = 1, boundMs?: number): Promise<void> {
    const what = `${String(ids.length)} jobs have begun ${String(runs)} times`
    await until(what, () => ids.every((id) => this.journal.runsOf(id).length >= runs), boundMs)
  }

  /** The jobs when all are over, or as they are after so long: a test then says how many are not what they should be. */
  async settled(ids: readonly string[], boundMs = 25_000): Promise<JobView[]> {
    const giveUpAt = performance.now() + boundMs
    const over = new Map<string, JobView>()
    await until(
      'all jobs are over',
      async () => {
        for (const view of await this.views(ids.filter((id) => !over.has(id))))
          if (OVER.includes(String(view.state))) over.set(String(view.id), view)
        return over.size === ids.length || performance.now() > giveUpAt
      },
      boundMs * 2,
    )
    return this.views(ids)
  }

  async events(types: readonly string[] = []): Promise<{ type: string; subject: string; data: JobView }[]> {
    const all: { type: string; subject: string; data: JobView }[] = []
    for (let after = ''; ;) {
      const query = `limit=1000${after}${types.length === 0 ? '' : `&types=${types.join(',')}`}`
      const { events, cursor, has_more: more } = (await this.server.get(`/ojs/v1/events?${query}`)).body
      all.push(...(events as typeof all))
      if (more !== true) return all
      after = `&after=${String(cursor)}`
    }
  }
}

export interface Line {
  readonly at: number
  readonly pid: number
  readonly what: string
  /** Only lines of handlers have these. */
  readonly jobId?: string
  readonly attempt?: number
  readonly run?: string
}

/** One call of a handler. */
export interface Run {
  readonly run: string
  readonly jobId: string
  readonly attempt: number
  readonly pid: number
  readonly beganAt: number
  /** When its signal was aborted, and why. */
  toldAt: number | null
  reason: string | null
  endedAt: number | null
  /** The last line of any kind. */
  lastAt: number
}

/** What handlers did, in a file that all processes append to. Reads only what is new. */
export class Journal {
  readonly file = join(temporaryDirectory(), 'journal')
  readonly #lines: Line[] = []
  readonly #runs = new Map<string, Run>()
  readonly #byJob = new Map<string, Run[]>()
  #position = 0
  #rest = ''

  constructor() {
    writeFileSync(this.file, '')
  }

  get lines(): readonly Line[] {
    this.#read()
    return this.#lines
  }

  /** In the order in which they began. */
  runsOf(jobId: string): readonly Run[] {
    this.#read()
    return [...(this.#byJob.get(jobId) ?? [])].sort((a, b) => a.beganAt - b.beganAt)
  }

  /** Until the process with this pid has written the line since then. */
  async wrote(pid: number, what: string, since = 0): Promise<Line> {
    const found = (): Line | undefined =>
      this.lines.find((line) => line.pid === pid && line.what === what && line.at >= since)
    return until(`process ${String(pid)} writes "${what}"`, found)
  }

  /** Pairs of runs of a job of which the later began before the earlier had written its last line. */
  overlaps(ids: readonly string[]): string[] {
    return ids.flatMap((id) => {
      const runs = this.runsOf(id)
      return runs.slice(1).flatMap((later, index) => {
        const earlier = runs.slice(0, index + 1).reduce((a, b) => (a.lastAt > b.lastAt ? a : b))
        const byMs = earlier.lastAt - later.beganAt
        return byMs > 0 ? [`a run of ${id} began ${byMs.toFixed(0)} ms before the last line of an earlier one`] : []
      })
    })
  }

  #read(): void {
    const file = openSync(this.file, 'r')
    try {
      const size = fstatSync(file).size
      if (size === this.#position) return
      const bytes = Buffer.alloc(size - this.#position)
      this.#position += readSync(file, bytes, 0, bytes.length, this.#position)
      const parts = (this.#rest + bytes.toString('utf8')).split('\n')
      this.#rest = parts.pop() ?? ''
      for (const part of parts) this.#take(JSON.parse(part) as Line)
    } finally {
      closeSync(file)
    }
  }

  #take(line: Line): void {
    const { jobId, run: id, attempt = 0, at, pid, what } = line
    if (jobId === undefined || id === undefined) {
      this.#lines.push(line)
      return
    }
    let run = this.#runs.get(id)
    if (run === undefined) {
      run = { run: id, jobId, attempt, pid, beganAt: at, toldAt: null, reason: null, endedAt: null, lastAt: at }
      this.#runs.set(id, run)
      this.#byJob.set(jobId, [...(this.#byJob.get(jobId) ?? []), run])
    }
    run.lastAt = Math.max(run.lastAt, at)
    if (what === 'end') run.endedAt = at
    if (what.startsWith('told:')) [run.toldAt, run.reason] = [at, what.slice('told:'.length)]
  }
}

/** How often each value occurs: `{ 'completed 1': 48, 'discarded 1': 2 }`. */
export function tally(values: readonly unknown[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const value of values.map(String)) counts[value] = (counts[value] ?? 0) + 1
  return counts
}
