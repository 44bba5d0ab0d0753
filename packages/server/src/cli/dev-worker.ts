/**
 * A program that `curfew dev` runs and starts again when its code changes. One process at a time: the one before is asked to
 * end (SIGTERM), waited for so that it can finish its jobs, and killed when that takes too long. A program that ends by itself is
 * reported and not started again until its code changes, so that a broken one does not start in a loop.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Millis } from '@curfew/core'

export interface DevWorkerOptions {
  readonly file: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** How long it may take to end after SIGTERM. */
  readonly drainMs: Millis
  readonly say: (text: string) => void
}

interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<void>
  /** It was asked to end, so its end is not reported. */
  isAsked: boolean
}

/** A group of its own: Ctrl-C in the terminal is for us alone, and what the program has started ends with it. */
const HAS_GROUPS = process.platform !== 'win32'

export class DevWorker {
  readonly #options: DevWorkerOptions
  #running: Running | null = null
  #turn: Promise<void> = Promise.resolve()
  #isWanted = false
  #isClosed = false

  constructor(options: DevWorkerOptions) {
    this.#options = options
    process.on('exit', this.#atExit)
  }

  readonly #atExit = (): void => {
    this.#signal('SIGKILL')
  }

  /** Starts it, or starts it again. Changes that come until the new process begins are part of the same start. */
  start(): void {
    if (this.#isWanted || this.#isClosed) return
    this.#isWanted = true
    this.#turn = this.#turn.then(async () => {
      await this.#stop()
      this.#isWanted = false
      if (!this.#isClosed) this.#begin()
    })
  }

  /** Answers when no process is left. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#turn = this.#turn.then(() => this.#stop())
    await this.#turn
    process.off('exit', this.#atExit)
  }

  #begin(): void {
    const { file, env, say } = this.#options
    const child = spawn(process.execPath, [...process.execArgv, file], {
      env: { ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
      detached: HAS_GROUPS,
    })
    const running: Running = {
      child,
      isAsked: false,
      ended: new Promise((resolve) => {
        child.once('error', (error) => {
          say(`the worker cannot be started: ${error.message}`)
          resolve()
        })
        child.once('exit', (code, signal) => {
          if (!running.isAsked)
            say(
              `the worker ended by itself (${signal ?? `code ${String(code)}`}); it starts again when its code changes`,
            )
          resolve()
        })
      }),
    }
    this.#running = running
    void running.ended.then(() => {
      if (this.#running === running) this.#running = null
    })
    if (child.pid !== undefined) say(`worker started, pid ${String(child.pid)}`)
  }

  async #stop(): Promise<void> {
    const running = this.#running
    if (running === null) return
    running.isAsked = true
    this.#signal('SIGTERM')
    const { drainMs, say } = this.#options
    const timer = setTimeout(() => {
      say(`the worker did not end within ${String(drainMs)} ms and is killed`)
      this.#signal('SIGKILL')
    }, drainMs)
    await running.ended
    clearTimeout(timer)
  }

  #signal(signal: NodeJS.Signals): void {
    const pid = this.#running?.child.pid
    if (pid === undefined) return
    try {
      // The program alone is asked: it knows what to do with what it has started.
      process.kill(HAS_GROUPS && signal === 'SIGKILL' ? -pid : pid, signal)
    } catch {
      // It has ended meanwhile.
    }
  }
}
