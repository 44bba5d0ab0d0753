/**
 * The log of an attempt in an isolate. A line is sent at once, so that it is there even if the handler is killed in the next
 * moment. If the worker does not keep up, lines wait here, the newest of them, and the next message says how many are gone.
 */
import { MAX_LOG_LINES, type LogLine } from '@curfew/core'

type Send = (lines: readonly LogLine[], dropped: number) => Promise<unknown>

export class IsolateLog {
  readonly #send: Send
  #unanswered = 0
  #waiting: LogLine[] = []
  #dropped = 0

  /** `send` settles when the worker has taken the lines. */
  constructor(send: Send) {
    this.#send = send
  }

  add(lines: readonly LogLine[]): void {
    this.#waiting.push(...lines)
    if (this.#unanswered < MAX_LOG_LINES) this.flush()
    while (this.#waiting.length > MAX_LOG_LINES) {
      this.#waiting.shift()
      this.#dropped += 1
    }
  }

  /** Sends what waits: when the worker has answered, and before the attempt ends. */
  flush(): void {
    if (this.#waiting.length === 0) return
    const [lines, dropped] = [this.#waiting, this.#dropped]
    this.#waiting = []
    this.#dropped = 0
    this.#unanswered += 1
    const answered = (): void => {
      this.#unanswered -= 1
      this.flush()
    }
    this.#send(lines, dropped).then(answered, answered)
  }
}
