/** A call from a socket. The signal is created on first use: most calls end before it is needed. */
import type { HttpRequest } from '../api/message.ts'

export class Incoming implements HttpRequest {
  readonly method: string
  readonly url: string
  readonly headers: HttpRequest['headers']
  readonly body: string
  sinceFirstByteMs?: (() => number) | undefined
  arriving?: () => Promise<string>
  skipping?: () => Promise<boolean>
  #controller: AbortController | null = null
  #gone = false
  #undelivered: (() => void) | null = null

  constructor(method: string, url: string, headers: HttpRequest['headers'], body = '') {
    this.method = method
    this.url = url
    this.headers = headers
    this.body = body
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#gone) this.#controller.abort()
    return this.#controller.signal
  }

  ifUndelivered(act: () => void): void {
    if (this.#gone) act()
    else this.#undelivered = act
  }

  /** The caller has hung up, and was not answered. */
  abort(): void {
    this.#gone = true
    this.#controller?.abort()
    this.#undelivered?.()
  }
}
