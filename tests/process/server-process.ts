/**
 * A real server in a process of its own, reached over real sockets, and the words the process tests use to speak to it.
 *
 * Nothing here sleeps: a test waits for a line of output, for an answer, for an exit, or (`until`) for a condition that
 * is looked at again and again within a bound. Every process started here is ended, by its id, when its file is done.
 */
import { spawn, type ChildProcess, type Serializable } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const main = join(root, 'packages', 'server', 'dist', 'cli', 'main.js')

/** How long a start, an exit, an answer or a condition may take before it counts as never. */
const PATIENCE_MS = 25_000

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** The body parsed; {} when it is not JSON. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Ended extends Exit {
  readonly stdout: string
  readonly stderr: string
}

export interface StartOptions {
  /** The data directory; a fresh one if left out. Not used with the flag `--database`. */
  readonly data?: string
  /** More flags for `serve`. */
  readonly flags?: readonly string[]
  /** The environment besides PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>
  /** Flags for Node itself. */
  readonly node?: readonly string[]
  /** Another Node than the one that runs the tests. */
  readonly executable?: string
  /** Opens a channel for `tell`, to a preloaded module. */
  readonly channel?: boolean
  /** Opens its standard input. */
  readonly input?: boolean
}

const running = new Set<ChildProcess>()
const directories: string[] = []

afterAll(async () => {
  await Promise.all(
    [...running].map(async (child) => {
      const gone = exitOf(child)
      child.kill('SIGKILL')
      await gone
    }),
  )
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'curfew-process-'))
  directories.push(directory)
  return directory
}

export class ServerProcess {
  readonly data: string
  readonly url: string
  readonly port: number
  readonly exited: Promise<Exit>
  readonly #child: ChildProcess
  readonly #output: Output
  readonly #agent = new Agent({ keepAlive: true })

  private constructor(child: ChildProcess, output: Output, data: string, url: string, exited: Promise<Exit>) {
    this.#child = child
    this.#output = output
    this.data = data
    this.url = url
    this.port = Number(new URL(url).port)
    this.exited = exited
    void exited.then(() => {
      this.#agent.destroy()
    })
  }

  /** Answers when the server says that it listens. */
  static async start(options: StartOptions = {}): Promise<ServerProcess> {
    const data = options.data ?? temporaryDirectory()
    const flags = options.flags ?? []
    const place = flags.includes('--database') ? [] : ['--data', data]
    const args = ['serve', '--port', '0', ...place, ...flags]
    const { child, output } = launch(args, options)
    const exited = exitOf(child)
    const listening = until('the server listens', () => /^listening on (\S+)\n/.exec(output.stdout)?.[1])
    const early = exited.then(({ code }) => {
      throw new Error(`the server ended with ${String(code)} before it listened:\n${output.stderr}`)
    })
    const url = await Promise.race([listening, early])
    early.catch(() => {})
    return new ServerProcess(child, output, data, url, exited)
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get stdout(): string {
    return this.#output.stdout
  }

  get stderr(): string {
    return this.#output.stderr
  }

  /** The log, line by line; throws where a line is not JSON. */
  get log(): Record<string, unknown>[] {
    return lines(this.stderr).map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Pulls the plug. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.exited
  }

  async stop(): Promise<Exit> {
    this.signal('SIGTERM')
    return this.exited
  }

  /** Sends a message to a preloaded module and answers what it replies. */
  tell(message: Serializable): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#child.once('message', resolve)
      this.#child.send(message, (error) => {
        if (error !== null) reject(error)
      })
    })
  }

  /** `body` as a value, or as text to send it as it is. Rejects when there is no answer. */
  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const request = httpRequest(
        {
          host: '127.0.0.1',
          port: this.port,
          method,
          path,
          agent: this.#agent,
          headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), ...headers },
          signal: AbortSignal.timeout(PATIENCE_MS * 3),
        },
        (response) => {
          let received = ''
          response.setEncoding('utf8')
          response.on('data', (chunk: string) => (received += chunk))
          response.on('error', reject)
          response.on('end', () => {
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text: received,
              body: parsed(received),
            })
          })
        },
      )
      request.on('error', reject)
      request.end(text)
    })
  }

  post(path: string, body?: unknown): Promise<Reply> {
    return this.call('POST', path, body)
  }

  get(path: string, headers?: Record<string, string>): Promise<Reply> {
    return this.call('GET', path, undefined, headers)
  }

  // ---- Words the stories use ----

  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  async enqueue(job: Record<string, unknown> = {}): Promise<any> {
    const reply = await this.post('/ojs/v1/jobs', { type: 'test.job', args: [], ...job })
    if (reply.status !== 201) throw new Error(`enqueue answered ${String(reply.status)}: ${reply.text}`)
    return reply.body.job
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  async fetch(body: Record<string, unknown> = {}): Promise<any[]> {
    const reply = await this.post('/ojs/v1/workers/fetch', { queues: ['default'], ...body })
    if (reply.status !== 200) throw new Error(`fetch answered ${String(reply.status)}: ${reply.text}`)
    return reply.body.jobs as unknown[]
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  async job(id: string): Promise<any> {
    const reply = await this.get(`/ojs/v1/jobs/${id}`)
    if (reply.status !== 200) throw new Error(`the job ${id} answered ${String(reply.status)}: ${reply.text}`)
    return reply.body.job
  }

  register(workerId: string): Promise<Reply> {
    return this.post('/ojs/v1/workers/register', {
      worker_id: workerId,
      hostname: 'test',
      pid: 1,
      queues: ['default'],
      concurrency: 10,
    })
  }
}

/** Runs the command to its end, with this as its standard input. */
export async function curfew(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input?: string,
): Promise<Ended> {
  const { child, output } = launch(args, { env, input: input !== undefined })
  child.stdin?.end(input)
  const exit = await within(`curfew ${args.join(' ')} ends`, exitOf(child))
  return { ...exit, ...output }
}

/** The command while it runs and waits for input. */
export interface Running {
  readonly output: Readonly<Output>
  readonly exited: Promise<Exit>
  /** Writes to its standard input, which stays open. */
  write(text: string): void
  signal(signal: NodeJS.Signals): void
}

export function runCurfew(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
  const { child, output } = launch(args, { input: true, env })
  return {
    output,
    exited: exitOf(child),
    write: (text) => child.stdin?.write(text),
    signal: (signal) => child.kill(signal),
  }
}

/** Any script of ours in a process of its own. */
export interface NodeProcess {
  readonly pid: number
  readonly output: Readonly<Output>
  readonly exited: Promise<Exit>
  /** Null while it runs. */
  ended(): Exit | null
  signal(signal: NodeJS.Signals): void
}

/** `script`: a file, or all arguments for Node. */
export function runNode(
  script: string | readonly string[],
  env: Readonly<Record<string, string>> = {},
  executable = process.execPath,
): NodeProcess {
  const { child, output } = launchNode(typeof script === 'string' ? [script] : script, { env, executable })
  let exit: Exit | null = null
  const exited = exitOf(child)
  void exited.then((how) => (exit = how))
  return {
    pid: child.pid ?? 0,
    output,
    exited,
    ended: () => exit,
    signal: (signal) => child.kill(signal),
  }
}

/** Looks until the condition answers something but false, null or undefined. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  boundMs = PATIENCE_MS,
): Promise<Exclude<T, false | null | undefined>> {
  const giveUpAt = performance.now() + boundMs
  for (;;) {
    const found = await look()
    if (found !== false && found !== null && found !== undefined) return found as Exclude<T, false | null | undefined>
    if (performance.now() > giveUpAt) throw new Error(`waited ${String(boundMs)} ms in vain: ${what}`)
    await pause(10)
  }
}

/** Answers with the promise, or says what did not happen in time. */
export async function within<T>(what: string, promise: Promise<T>, boundMs = PATIENCE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`waited ${String(boundMs)} ms in vain: ${what}`))
    }, boundMs)
  })
  return Promise.race([promise, late]).finally(() => {
    clearTimeout(timer)
  })
}

/** For what really is about time passing, such as an outage of a certain length. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}

interface Output {
  stdout: string
  stderr: string
}

function launch(args: readonly string[], options: StartOptions): { child: ChildProcess; output: Output } {
  return launchNode([...(options.node ?? []), main, ...args], options)
}

function launchNode(
  args: readonly string[],
  { env, channel, input, executable = process.execPath }: StartOptions,
): { child: ChildProcess; output: Output } {
  const child = spawn(executable, args, {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    stdio: [input === true ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(channel === true ? (['ipc'] as const) : [])],
  })
  running.add(child)
  const output: Output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (chunk: string) => (output[name] += chunk))
  }
  return { child, output }
}

/** Its exit, and everything it said read. */
function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    const done = (code: number | null, signal: NodeJS.Signals | null): void => {
      running.delete(child)
      resolve({ code, signal })
    }
    if (child.exitCode !== null || child.signalCode !== null) done(child.exitCode, child.signalCode)
    else child.once('close', done)
  })
}

function parsed(text: string): unknown {
  try {
    return text === '' ? {} : (JSON.parse(text) as unknown)
  } catch {
    return {} // metrics and the like
  }
}
