/**
 * Brings the write-ahead log to the disk, off the main thread. SQLite would do it within each commit and stand still
 * meanwhile; here a commit only writes, the next one may begin at once, and whoever committed is told when a sync that
 * began after his commit has ended. Commits that come while one is under way share the next.
 *
 * The promise is that of `synchronous = FULL`, which does the same sync of the same file. SQLite itself still syncs the
 * log before it copies from it into the database (`synchronous = NORMAL`).
 */
import { closeSync, fdatasync, openSync } from 'node:fs'

/** Makes one open file's data safe, and then calls back. */
export type SyncFile = (file: number, done: (error: Error | null) => void) => void

export class LogSync {
  readonly #file: number
  readonly #sync: SyncFile
  #committed = 0
  #synced = 0
  #running = false
  #waiting: { readonly upTo: number; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = []
  #closed = false

  constructor(database: string, sync: SyncFile = fdatasync) {
    this.#file = openSync(`${database}-wal`, 'r+')
    this.#sync = sync
  }

  /** Something was committed. Answers when it is on the disk. */
  committed(): Promise<void> {
    this.#committed += 1
    return this.settled()
  }

  /** Answers when everything that is committed by now is on the disk. */
  settled(): Promise<void> {
    const upTo = this.#committed
    if (this.#synced >= upTo) return Promise.resolve()
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

  #run(): void {
    if (this.#running) return
    this.#running = true
    const upTo = this.#committed
    this.#sync(this.#file, (error) => {
      this.#running = false
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
