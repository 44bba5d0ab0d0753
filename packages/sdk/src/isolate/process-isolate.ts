/**
 * A handler's process, as its owner holds it. It leads a process group of its own, so that one kill reaches all that the
 * handler has started; when it goes by itself, what it leaves behind is killed too.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Timer } from '@curfew/core'
import { errorData } from '../attempt/error-data.ts'
import { entryUrl } from './entry.ts'
import { PATIENCE_MS, type Gone, type Isolate, type IsolateKind, type IsolateSetting } from './isolate.ts'
import { readLines } from './lines.ts'
import { FD, type FromIsolate, type FromWatcher, type ToIsolate, type ToWatcher } from './messages.ts'

/** After the exit, what had been said before may still be in the pipes. */
const LAST_WORDS_MS = 100

export class ProcessIsolate implements Isolate {
  readonly #setting: IsolateSetting
  readonly #child: ChildProcess
  readonly #stacks = new Map<number, (stack: readonly string[] | null) => void>()
  #questions = 0
  #timer: Timer | null = null
  #switch: Gone | null = null
  #isGone = false

  constructor({ module, exportName, memoryMb }: IsolateKind, setting: IsolateSetting) {
    this.#setting = setting
    const args = [
      ...execArgv(process.execArgv, memoryMb),
      fileURLToPath(entryUrl('isolate/process-main')),
      module,
      exportName,
    ]
    this.#child = spawn(process.execPath, args, {
      detached: true,
      windowsHide: true,
      stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'pipe', 'pipe', 'pipe'],
    })
    this.#child.on('error', (error) => {
      if (this.#child.pid === undefined) this.#gone({ how: 'unstarted', error: errorData(error) })
    })
    this.#child.on('exit', (code, signal) => {
      this.#signalGroup('SIGKILL') // what it has left behind
      void this.#lastWords().then(() => {
        this.#gone(this.#switch ?? (signal === null ? { how: 'exit', code } : { how: 'signal', signal }))
      })
    })
    this.#read(FD.fromHandler, (line) => {
      if (!this.#isGone) setting.onMessage(JSON.parse(line) as FromIsolate)
    })
    this.#read(FD.fromWatcher, (line) => {
      this.#hearWatcher(JSON.parse(line) as FromWatcher)
    })
    // Its exit event reports that it is gone.
    for (const fd of Object.values(FD)) this.#pipe(fd)?.on('error', () => {})
  }

  send(message: ToIsolate): void {
    this.#pipe(FD.toHandler)?.write(`${JSON.stringify(message)}\n`)
  }

  guard(until: { readonly hardAt: number; readonly leaseAt: number } | null): void {
    const at = (instant = Infinity): number | null => (instant === Infinity ? null : instant)
    this.#tellWatcher({ t: 'guard', hardAt: at(until?.hardAt), leaseAt: at(until?.leaseAt) })
  }

  stack(): Promise<readonly string[] | null> {
    return new Promise((resolve) => {
      const id = ++this.#questions
      this.#stacks.set(id, resolve)
      this.#tellWatcher({ t: 'stack', id })
    })
  }

  warn(): void {
    this.#signalGroup('SIGTERM')
  }

  end(): void {
    this.send({ t: 'end' })
    this.#timer = this.#setting.host.setTimer(PATIENCE_MS, () => {
      this.kill()
    })
  }

  kill(): void {
    this.#signalGroup('SIGKILL')
    this.#timer?.cancel()
    // Only the system itself can hold a killed process back.
    this.#timer = this.#setting.host.setTimer(PATIENCE_MS, () => {
      this.#child.unref()
      this.#gone({ how: 'stuck' })
    })
  }

  /** Null when the process could not be started at all. */
  #pipe(fd: number): Duplex | null {
    const stdio = this.#child.stdio as readonly unknown[] | undefined
    return (stdio?.[fd] ?? null) as Duplex | null
  }

  #read(fd: number, onLine: (line: string) => void): void {
    const pipe = this.#pipe(fd)
    if (pipe !== null) readLines(pipe, onLine)
  }

  #tellWatcher(message: ToWatcher): void {
    this.#pipe(FD.toWatcher)?.write(`${JSON.stringify(message)}\n`)
  }

  #hearWatcher(message: FromWatcher): void {
    if (message.t === 'last') this.#switch = { how: 'switch', why: message.why }
    else {
      this.#stacks.get(message.id)?.(message.stack)
      this.#stacks.delete(message.id)
    }
  }

  #signalGroup(signal: NodeJS.Signals): void {
    const { pid } = this.#child
    if (pid === undefined) return
    try {
      process.kill(-pid, signal)
    } catch {
      this.#child.kill(signal) // the group is empty, or the system has no process groups
    }
  }

  async #lastWords(): Promise<void> {
    let timer: Timer | undefined
    const late = new Promise((resolve) => {
      timer = this.#setting.host.setTimer(LAST_WORDS_MS, () => {
        resolve(null)
      })
    })
    const read = [FD.fromHandler, FD.fromWatcher].map((fd) => {
      const pipe = this.#pipe(fd)
      return new Promise((resolve) => {
        if (pipe === null || pipe.closed) resolve(null)
        else pipe.once('close', resolve)
      })
    })
    await Promise.race([Promise.all(read), late])
    timer?.cancel()
  }

  #gone(gone: Gone): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#timer?.cancel()
    for (const resolve of this.#stacks.values()) resolve(null)
    for (const fd of Object.values(FD)) this.#pipe(fd)?.destroy()
    this.#setting.onGone(gone)
  }
}

/** Flags of the worker's own Node that are not for its children: debuggers, scripts given on the command line. */
const NOT_INHERITED = /^--(inspect|debug|test|watch|check|interactive|max-old-space-size|max_old_space_size)/
const WITH_VALUE = ['-e', '--eval', '-p', '--print', '-pe']

export function execArgv(own: readonly string[], memoryMb: number | null): string[] {
  const kept = own.filter((flag, index) => {
    if (WITH_VALUE.includes(flag) || WITH_VALUE.includes(own[index - 1] ?? '')) return false
    if (flag === '-c' || flag === '-i' || flag.startsWith('--input-type')) return false
    return !NOT_INHERITED.test(flag) || (memoryMb === null && /^--max.old.space.size/.test(flag))
  })
  return memoryMb === null ? kept : [...kept, `--max-old-space-size=${String(memoryMb)}`]
}
