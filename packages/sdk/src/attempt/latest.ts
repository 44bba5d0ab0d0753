/**
 * Sends values one after the other, the last one wins: while one is under way, newer ones replace each other, and only
 * the newest goes next. A promise is kept when its value, or a newer one, has arrived.
 */
interface Waiting<T> {
  value: T
  readonly done: Promise<void>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

export class LatestWins<T> {
  readonly #send: (value: T) => Promise<void>
  #sending: Promise<void> | null = null
  #next: Waiting<T> | null = null

  constructor(send: (value: T) => Promise<void>) {
    this.#send = send
  }

  /** Nothing is under way. */
  get isIdle(): boolean {
    return this.#sending === null
  }

  put(value: T): Promise<void> {
    if (this.#next !== null) {
      this.#next.value = value
      return this.#next.done
    }
    if (this.#sending === null) return this.#start(value)
    const { promise, resolve, reject } = withResolvers()
    this.#next = { value, done: promise, resolve, reject }
    return promise
  }

  /** Resolves when nothing is in flight. Whether a value arrived is reported to the caller that put it. */
  async flush(): Promise<void> {
    while (this.#sending !== null) await this.#sending.catch(() => {})
  }

  #start(value: T): Promise<void> {
    const sending = this.#send(value)
    this.#sending = sending
    const goOn = (): void => {
      const next = this.#next
      this.#next = null
      this.#sending = null
      if (next !== null) this.#start(next.value).then(next.resolve, next.reject)
    }
    sending.then(goOn, goOn)
    return sending
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let [resolve, reject] = [(): void => {}, (_error: unknown): void => {}]
  const promise = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
