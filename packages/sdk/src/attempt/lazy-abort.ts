/** An abort signal that is made when it is first asked for: most handlers never look at theirs. */
export class LazyAbort {
  #controller: AbortController | null = null
  #reason: Error | null = null

  get aborted(): boolean {
    return this.#reason !== null
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#reason !== null) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** The first reason is the one the signal gives. */
  abort(reason: Error): void {
    if (this.#reason !== null) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
