/** A handler's thread, as its owner holds it. */
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads'
import type { Timer } from '@curfew/core'
import { errorData } from '../attempt/error-data.ts'
import { entryUrl } from './entry.ts'
import { PATIENCE_MS, type Gone, type Isolate, type IsolateKind, type IsolateSetting } from './isolate.ts'
import type { FromIsolate, ThreadData, ToIsolate } from './messages.ts'
import { askThread, type Asked } from './thread-stack.ts'

/** A termination can get lost in an expression the inspector evaluates just then: it is asked for until it is heard. */
const AGAIN_MS = 5

/**
 * At its limit a thread gets a little more memory to end with. What survives from a larger young generation may not fit
 * in there, and then V8 aborts the whole process.
 */
const YOUNG_MB = 12

export class ThreadIsolate implements Isolate {
  readonly #setting: IsolateSetting
  readonly #worker: Worker
  readonly #port: MessagePort
  /** Until when the worker's lease lasts. The thread itself looks at it, before it goes on after a sleep. */
  readonly #leaseAt = new Float64Array(new SharedArrayBuffer(8)).fill(Infinity)
  #asked: Asked | null = null
  #timer: Timer | null = null
  #error: Gone | null = null
  #isGone = false

  constructor({ module, exportName, memoryMb }: IsolateKind, setting: IsolateSetting) {
    this.#setting = setting
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.#port.on('message', (message: FromIsolate) => {
      setting.onMessage(message)
    })
    const workerData: ThreadData = { port: port2, module, exportName, leaseAt: this.#leaseAt }
    this.#worker = new Worker(entryUrl('isolate/thread-main'), {
      workerData,
      transferList: [port2],
      name: `curfew ${exportName}`,
      ...(memoryMb === null
        ? {}
        : { resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: YOUNG_MB } }),
    })
    this.#worker.setMaxListeners(0) // every terminate() adds one
    this.#worker.on('error', (error) => {
      this.#error = { how: 'error', error: errorData(error) }
    })
    this.#worker.on('exit', (code) => {
      // What it said before may not have been heard yet.
      for (let last = receiveMessageOnPort(port1); last !== undefined; last = receiveMessageOnPort(port1))
        setting.onMessage(last.message as FromIsolate)
      this.#gone(this.#error ?? { how: 'exit', code })
    })
  }

  send(message: ToIsolate): void {
    this.#port.postMessage(message)
  }

  /** A thread dies with its process, and stands still with it: only the time after a standstill is guarded. */
  guard(until: { readonly leaseAt: number } | null): void {
    this.#leaseAt[0] = until?.leaseAt ?? Infinity
  }

  stack(): Promise<readonly string[] | null> {
    this.#asked = askThread(this.#worker.threadId)
    return this.#asked.stack
  }

  warn(): void {}

  end(): void {
    this.send({ t: 'end' })
    this.#timer = this.#setting.host.setTimer(PATIENCE_MS, () => {
      this.kill()
    })
  }

  kill(): void {
    const { host } = this.#setting
    const giveUpAt = host.monotonicMs() + PATIENCE_MS
    const terminate = (): void => {
      if (this.#isGone) return
      if (host.monotonicMs() >= giveUpAt) {
        this.#worker.unref()
        this.#gone({ how: 'stuck' })
        return
      }
      void this.#worker.terminate()
      this.#timer = host.setTimer(AGAIN_MS, terminate)
    }
    this.#timer?.cancel()
    terminate()
  }

  #gone(gone: Gone): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#timer?.cancel()
    this.#asked?.close()
    this.#port.close()
    this.#setting.onGone(gone)
  }
}
