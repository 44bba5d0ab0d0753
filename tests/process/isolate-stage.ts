/** Real isolates with the handlers of `handlers/`, and the words their tests use. */
import { readFileSync } from 'node:fs'
import { afterEach } from 'vitest'
import { nodeHost } from '../../packages/sdk/src/host.ts'
import { Isolates } from '../../packages/sdk/src/isolate/isolates.ts'
import type { Answer } from '../../packages/sdk/src/isolate/messages.ts'
import type { Call, Ending, Stop } from '../../packages/sdk/src/attempt/facts.ts'
import type { Isolation } from '../../packages/sdk/src/isolate/protocol.ts'
import { silentLog } from '../../packages/sdk/src/log.ts'
import { until } from './server-process.ts'

export const BOTH: readonly Isolation[] = ['thread', 'process']
export const softStop: Stop = { why: 'deadline', kind: 'execution', limitMs: 200, source: 'handler' }
export const now = (): number => nodeHost.monotonicMs()

/** What handlers tell of where they run. */
export interface Place {
  readonly pid: number
  readonly threadId: number
  readonly grandchild: number
}

export interface RunOptions {
  readonly isolation?: Isolation
  /** A file in `handlers/`, or a whole URL. */
  readonly module?: string
  readonly args?: readonly unknown[]
  readonly memoryMb?: number
  /** From now to the soft deadline; long enough to never come unless it is said. */
  readonly softMs?: number
  readonly graceMs?: number
  /** From the kill to when the server would decide by itself. */
  readonly leadMs?: number
}

const stages: Stage[] = []
afterEach(async () => {
  await Promise.all(stages.splice(0).map((stage) => stage.isolates.close()))
})

export class Stage {
  readonly isolates: Isolates
  readonly #runs = new Map<string, Attempt>()
  #keys = 0

  constructor(most = 4) {
    this.isolates = new Isolates({
      host: nodeHost,
      most,
      log: silentLog,
      onCall: (key, id, call) => {
        const attempt = this.#runs.get(key)
        attempt?.calls.push(call)
        this.isolates.reply(key, id, attempt?.answer(call) ?? { ok: true, value: null })
      },
      onStack: (key, stack) => {
        this.#runs.get(key)?.stacks.push({ at: now(), stack })
      },
      onEnded: (key, ending) => {
        this.#runs.get(key)?.end(ending)
      },
    })
    stages.push(this)
  }

  run(exportName: string, options: RunOptions = {}): Attempt {
    const { isolation = 'thread', module = 'handlers.mjs', args = [], memoryMb = null } = options
    const key = `task-${String(++this.#keys)}`
    const softAt = now() + (options.softMs ?? 60_000)
    const attempt = new Attempt(key, softAt + (options.graceMs ?? 0))
    this.#runs.set(key, attempt)
    this.isolates.run({
      key,
      isolation,
      module: moduleUrl(module),
      exportName,
      memoryMb,
      serverEndsAt: attempt.hardAt + (options.leadMs ?? 250),
      facts: {
        jobId: 'job-1',
        type: 'test.job',
        queue: 'default',
        attempt: 2,
        lease: 2,
        maxAttempts: 3,
        args,
        input: args,
        meta: { trace: 't' },
        lastCheckpoint: { frame: 1 },
        workflowId: null,
        parentResults: [],
        softAt,
        softStop,
        hardAt: attempt.hardAt,
      },
    })
    return attempt
  }
}

export function moduleUrl(module: string): string {
  return module.includes(':') ? module : new URL(`./handlers/${module}`, import.meta.url).href
}

export class Attempt {
  readonly calls: Call[] = []
  /** What was handed on while it was valid. */
  readonly stacks: { readonly at: number; readonly stack: readonly string[] }[] = []
  readonly ended: Promise<Ending>
  /** When it was told that it had ended. */
  endedAt = 0
  answer: (call: Call) => Answer = () => ({ ok: true, value: null })
  #end: (ending: Ending) => void = () => {}

  constructor(
    readonly key: string,
    readonly hardAt: number,
  ) {
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  end(ending: Ending): void {
    this.endedAt = now()
    this.#end(ending)
  }

  /** What it returned; throws when it ended otherwise. */
  async result<T = unknown>(): Promise<T> {
    const ending = await this.ended
    if (ending.kind !== 'returned') throw new Error(`it ended otherwise: ${JSON.stringify(ending)}`)
    return ending.result as T
  }

  /** Waits for the first call: the handler runs. Answers the data of that call. */
  async running(): Promise<Place> {
    const call = await until('the handler calls', () => this.calls[0])
    return ('data' in call ? call.data : null) as Place
  }
}

/** Whether a process still is one that could run: a zombie that was not reaped is not. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
    return !/^\d+ \(.*\) [ZX]/s.test(stat)
  } catch {
    return process.platform !== 'linux' && answersSignals(pid)
  }
}

function answersSignals(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
