/**
 * Callers that wait for a run to reach some point, and news of runs from other servers. What is saved here is announced at
 * once. Other servers announce through the log, which is read only while a caller waits.
 */
import { OjsError, type Run } from '@curfew/core'
import { isAnyAborted, onAbort } from '../kernel/until.ts'
import type { JourneysContext } from './context.ts'
import type { Announcement } from '../kernel/context.ts'
import { findRun } from './runs.ts'

interface Waiter {
  readonly isDone: (run: Run) => boolean
  readonly resolve: (run: Run) => void
}

export class RunWatch {
  readonly #context: JourneysContext
  readonly #waiters = new Map<string, Set<Waiter>>()
  /** Runs that are of interest although no caller waits for them. */
  readonly #watched = new Set<string>()
  readonly #onLook: (run: Run) => void
  #unlisten: (() => void) | null = null

  /** `onLook`: a run that is of interest was looked at, because another server had changed it. */
  constructor(context: JourneysContext, onLook: (run: Run) => void) {
    this.#context = context
    this.#onLook = onLook
  }

  watch(id: string): void {
    this.#watched.add(id)
    this.#listen()
  }

  unwatch(id: string): void {
    this.#watched.delete(id)
    this.#listen()
  }

  /** A run was saved. */
  tell(run: Run): void {
    for (const { isDone, resolve } of this.#waiters.get(run.id) ?? []) if (isDone(run)) resolve(run)
  }

  /** Answers once the run is so; at once, if it is. Gives up when the asker is gone or the server stops. */
  async until(id: string, signal: AbortSignal, isDone: (run: Run) => boolean): Promise<Run> {
    let giveUp = (): void => {}
    const told = new Promise<Run>((resolve, reject) => {
      giveUp = () => {
        reject(new OjsError('unavailable', 'The wait for the journey has ended; the journey goes on.'))
      }
      this.#enter(id, { isDone, resolve })
    })
    const signals = [signal, this.#context.closing]
    const unhook = onAbort(signals, giveUp)
    if (isAnyAborted(signals)) giveUp()
    try {
      const run = await findRun(this.#context, id)
      return run !== null && isDone(run) ? run : await this.#untilTold(told, run)
    } finally {
      unhook()
      this.#leave(id, isDone)
      told.catch(() => {})
    }
  }

  /** At its deadline it is over, whether or not another server has announced it yet. */
  async #untilTold(told: Promise<Run>, run: Run | null): Promise<Run> {
    if (run === null) return told
    const timer = this.#context.timerAt(run.deadlineAt, () => {
      this.#look(run.id)
    })
    try {
      return await told
    } finally {
      timer.cancel()
    }
  }

  #enter(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id) ?? new Set()
    this.#waiters.set(id, waiters.add(waiter))
    this.#listen()
  }

  #leave(id: string, isDone: Waiter['isDone']): void {
    const waiters = this.#waiters.get(id)
    for (const waiter of waiters ?? []) if (waiter.isDone === isDone) waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiters.delete(id)
    this.#listen()
  }

  /** Or stops to. */
  #listen(): void {
    if (this.#waiters.size + this.#watched.size === 0 || !this.#context.store.shared) {
      this.#unlisten?.()
      this.#unlisten = null
      return
    }
    this.#unlisten ??= this.#context.listen(({ events, live }: Announcement) => {
      for (const { type, subject } of [...events, ...live])
        if (type.startsWith('journey.') && (this.#waiters.has(subject) || this.#watched.has(subject)))
          this.#look(subject)
    })
  }

  #look(id: string): void {
    findRun(this.#context, id).then(
      (run) => {
        if (run === null) return
        this.tell(run)
        this.#onLook(run)
      },
      () => {
        // The store cannot serve, and says so itself. The next news, or the deadline, leads here again.
      },
    )
  }
}
