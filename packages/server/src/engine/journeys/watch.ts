/**
 * Those who wait for a run to come to some point, and what is heard of runs from other servers. Whatever is saved here is
 * told at once. Others tell through the log, which is listened to only while somebody wants to know.
 */
import { OjsError, type Run } from '@curfew/core'
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
  /** Runs that are of interest although nobody waits for them. */
  readonly #watched = new Set<string>()
  readonly #onLook: (run: Run) => void
  #unlisten: (() => void) | null = null

  /** `onLook`: a run that is of interest was looked at, because somebody else had changed it. */
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
    const { closing } = this.#context
    let giveUp = (): void => {}
    const told = new Promise<Run>((resolve, reject) => {
      giveUp = () => {
        reject(new OjsError('unavailable', 'Nobody waits for the journey any more; it goes on.'))
      }
      this.#enter(id, { isDone, resolve })
    })
    for (const one of [signal, closing]) one.addEventListener('abort', giveUp, { once: true })
    if (signal.aborted || closing.aborted) giveUp()
    try {
      const run = await findRun(this.#context, id)
      return run !== null && isDone(run) ? run : await this.#untilTold(told, run)
    } finally {
      for (const one of [signal, closing]) one.removeEventListener('abort', giveUp)
      this.#leave(id, isDone)
      told.catch(() => {})
    }
  }

  /** At its deadline it is over, whether or not somebody else has told so yet. */
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
