/**
 * Brings the write-ahead log to the disk. SQLite would do it within each commit and stand still meanwhile; here a commit
 * only writes, and a sync that began after the commit makes it durable. Commits that come while one is under way share
 * the next.
 *
 * A sync runs on a thread of the pool, so that requests are read meanwhile. A commit that has no other work behind it is
 * synced in place, on the main thread: handing it to a thread and back costs more than the sync itself. This is done only
 * while the disk is quick; after a slow sync the next ones run on a thread again, until one of them was quick.
 *
 * The promise is that of `synchronous = FULL`, which does the same sync of the same file. SQLite itself still syncs the
 * log before it copies from it into the database (`synchronous = NORMAL`).
 */
import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'

/** How an open file's data is made safe: on a thread, and in place. */
export interface SyncFile {
  readonly onThread: (file: number, done: (error: Error | null) => void) => void
  readonly inPlace: (file: number) => void
}

const DISK: SyncFile = {
  onThread: (file, done) => {
    fdatasync(file, done)
  },
  inPlace: (file) => {
    fdatasyncSync(file)
  },
}

/** A sync on the main thread keeps everything else waiting, so it must not take longer than this. */
const MAX_IN_PLACE_MS = 1

const DONE = Promise.resolve()

/** Nothing is shorter than what was not measured. */
const NEVER_QUICK = (): number => Number.NaN

export class LogSync {
  readonly #file: number
  readonly #monotonicMs: () => number
  readonly #sync: SyncFile
  #committed = 0
  #synced = 0
  #running = false
  #waiting: { readonly upTo: number; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = []
  #closed = false
  /** Whether the last sync was quick enough to be done in place. */
  #isQuick = false

  /** `monotonicMs` measures how long a sync takes; without it every sync runs on a thread. */
  constructor(database: string, monotonicMs: (() => number) | null, sync: SyncFile = DISK) {
    this.#file = openSync(`${database}-wal`, 'r+')
    this.#monotonicMs = monotonicMs ?? NEVER_QUICK
    this.#sync = sync
  }

  /** Something was committed. Answers when it is on the disk. `isAlone`: no other work waits behind it. */
  committed(isAlone = false): Promise<void> {
    this.#committed += 1
    return isAlone && this.#isQuick && !this.#running ? this.#syncInPlace() : this.settled()
  }

  /** Answers when everything that is committed by now is on the disk. */
  settled(): Promise<void> {
    const upTo = this.#committed
    if (this.#synced >= upTo) return DONE
    return new Promise((resolve, reject) => {
      this.#waiting.push({ upTo, resolve, reject })
      this.#run()
    })
  }

  /** After what is under way. May be called again. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (!this.#running) closeSync(this.#file)
  }

  /** An error is reported and never tried again: the system may have dropped what it could not write. */
  #syncInPlace(): Promise<void> {
    const beganMs = this.#monotonicMs()
    try {
      this.#sync.inPlace(this.#file)
    } catch (error) {
      this.#isQuick = false
      return Promise.reject(error instanceof Error ? error : new Error(String(error)))
    }
    this.#synced = this.#committed
    this.#isQuick = this.#tookLittle(beganMs)
    return DONE
  }

  #tookLittle(beganMs: number): boolean {
    return this.#monotonicMs() - beganMs <= MAX_IN_PLACE_MS
  }

  #run(): void {
    if (this.#running) return
    this.#running = true
    const upTo = this.#committed
    const beganMs = this.#monotonicMs()
    this.#sync.onThread(this.#file, (error) => {
      this.#running = false
      this.#isQuick = error === null && this.#tookLittle(beganMs)
      if (error === null) this.#synced = upTo
      const heard = this.#waiting.filter((one) => error !== null || one.upTo <= upTo)
      this.#waiting = this.#waiting.filter((one) => error === null && one.upTo > upTo)
      for (const { resolve, reject } of heard) {
        if (error === null) resolve()
        else reject(error)
      }
      if (this.#waiting.length > 0) this.#run()
      else if (this.#closed) closeSync(this.#file)
    })
  }
}
