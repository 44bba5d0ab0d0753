/** A process that was started here, and ends with this one. */
import { spawn, type ChildProcess } from 'node:child_process'

const running = new Set<ChildProcess>()
const END_MS = 60_000

process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export class Child {
  readonly exited: Promise<number | null>
  readonly #child: ChildProcess
  stdout = ''
  stderr = ''

  constructor(command: readonly string[], env: Readonly<Record<string, string>>, channel = false) {
    const [program = process.execPath, ...args] = command
    this.#child = spawn(program, args, {
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
      stdio: ['ignore', 'pipe', 'pipe', ...(channel ? (['ipc'] as const) : [])],
    })
    running.add(this.#child)
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text))
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text))
    this.exited = new Promise((resolve) => {
      this.#child.once('close', (code) => {
        running.delete(this.#child)
        resolve(code)
      })
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.exited
  }

  /** In order; by force where that takes too long. Says whether it ended by itself. */
  async stop(): Promise<boolean> {
    this.signal('SIGTERM')
    const force = setTimeout(() => this.#child.kill('SIGKILL'), END_MS)
    const code = await this.exited
    clearTimeout(force)
    return code === 0
  }

  send(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => {})
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export async function until(what: string, look: () => boolean | Promise<boolean>, boundMs: number): Promise<void> {
  const giveUpAt = performance.now() + boundMs
  while (!(await look())) {
    if (performance.now() > giveUpAt) throw new Error(`waited ${String(boundMs)} ms in vain: ${what}`)
    await pause(20)
  }
}
