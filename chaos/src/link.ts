/**
 * The network between clients and a server: a TCP proxy with an address that outlives the server behind it. It can reset
 * connections, swallow what passes, and delay it.
 */
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net'

interface Pair {
  readonly client: Socket
  readonly server: Socket
}

export class Link {
  readonly #proxy: Server
  readonly #pairs = new Set<Pair>()
  readonly #target: () => number | null
  #swallows = false
  #delayMs = 0

  private constructor(target: () => number | null) {
    this.#target = target
    this.#proxy = createServer((client) => {
      this.#accept(client)
    })
  }

  /** `target`: the port of the server at this moment; null while there is none. */
  static async open(host: string, target: () => number | null): Promise<Link> {
    const link = new Link(target)
    await new Promise<void>((resolve) => link.#proxy.listen(0, host, resolve))
    return link
  }

  get port(): number {
    return (this.#proxy.address() as AddressInfo).port
  }

  close(): void {
    this.reset()
    this.#proxy.close()
  }

  /** Both sides of every connection see it reset. */
  reset(): void {
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
    this.#pairs.clear()
  }

  /** What arrives is read and thrown away; no side learns of it until the connections break. */
  swallow(): void {
    this.#swallows = true
  }

  delay(ms: number): void {
    this.#delayMs = ms
  }

  heal(): void {
    if (this.#swallows) this.reset()
    this.#swallows = false
    this.#delayMs = 0
  }

  #accept(client: Socket): void {
    const port = this.#target()
    if (port === null) {
      client.resetAndDestroy()
      return
    }
    const server = connect(port, '127.0.0.1')
    const pair = { client, server }
    this.#pairs.add(pair)
    this.#pass(client, server)
    this.#pass(server, client)
    const end = (): void => {
      this.#pairs.delete(pair)
      if (this.#swallows) return
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', end)
    }
  }

  #pass(from: Socket, to: Socket): void {
    from.on('data', (chunk) => {
      if (this.#swallows) return
      if (this.#delayMs === 0) {
        if (!to.destroyed) to.write(chunk)
        return
      }
      setTimeout(() => {
        if (!to.destroyed && !this.#swallows) to.write(chunk)
      }, this.#delayMs)
    })
    from.on('end', () => {
      if (!this.#swallows) to.end()
    })
  }
}
