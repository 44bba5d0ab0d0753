/** Stands between a store and its database: counts the messages the store sends, and can hold back what it is answered. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** How many of each kind. A query is a bind and an execute. */
export interface Sent {
  readonly parse: number
  readonly bind: number
  readonly describe: number
  readonly execute: number
  readonly sync: number
  /** How often the store spoke after the database had. */
  readonly turns: number
}

const KINDS = { P: 'parse', B: 'bind', D: 'describe', E: 'execute', S: 'sync' } as const
const NONE: Sent = { parse: 0, bind: 0, describe: 0, execute: 0, sync: 0, turns: 0 }

class Tapped {
  sent = { ...NONE }
  /** On which a transaction was committed. */
  commits = false
  #rest = Buffer.alloc(0)
  #isStarted = false
  #lastSpoke: 'store' | 'database' = 'database'

  hear(data: Buffer): void {
    if (this.#lastSpoke === 'database') this.sent.turns++
    this.#lastSpoke = 'store'
    this.commits ||= data.includes('\0commit\0') // the statement's name
    let bytes = Buffer.concat([this.#rest, data])
    for (;;) {
      // The first message has a length and no kind.
      const head = this.#isStarted ? 1 : 0
      if (bytes.length < head + 4 || bytes.length < head + bytes.readUInt32BE(head)) break
      const kind = this.#isStarted ? KINDS[String.fromCharCode(bytes[0] ?? 0) as keyof typeof KINDS] : undefined
      if (kind !== undefined) this.sent[kind]++
      bytes = bytes.subarray(head + bytes.readUInt32BE(head))
      this.#isStarted = true
    }
    this.#rest = bytes
  }

  answered(): void {
    this.#lastSpoke = 'database'
  }
}

export interface Wiretap {
  readonly url: string
  /** What was sent on the connections for transactions. */
  sentDuring(work: () => Promise<unknown>): Promise<Sent>
  /** From here on the answers to transactions wait, until they are let go. */
  holdAnswers(): () => void
}

export async function openWiretap(database: string): Promise<Wiretap> {
  const to = new URL(database)
  const all = new Map<Tapped, [store: Socket, database: Socket]>()
  const server = createServer((store) => {
    const behind = connect(Number(to.port), to.hostname)
    const tapped = new Tapped()
    all.set(tapped, [store, behind])
    store.on('data', (data) => {
      tapped.hear(data)
      behind.write(data)
    })
    behind.on('data', (data) => {
      tapped.answered()
      store.write(data)
    })
    const end = (): void => {
      store.destroy()
      behind.destroy()
    }
    for (const socket of [store, behind]) socket.on('error', end).on('close', end)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const pair of all.values()) for (const socket of pair) socket.destroy()
    server.close()
  })
  const committing = (): [Tapped, [Socket, Socket]][] => [...all].filter(([{ commits }]) => commits)
  const sum = (): Sent => {
    const total = { ...NONE }
    for (const [{ sent }] of committing())
      for (const kind of Object.keys(total) as (keyof Sent)[]) total[kind] += sent[kind]
    return total
  }
  const url = new URL(database)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    async sentDuring(work) {
      const before = sum()
      await work()
      const after = sum()
      return Object.fromEntries(
        (Object.keys(after) as (keyof Sent)[]).map((kind) => [kind, after[kind] - before[kind]]),
      ) as unknown as Sent
    },
    holdAnswers() {
      const held = committing().map(([, [, behind]]) => behind.pause())
      return () => {
        for (const behind of held) behind.resume()
      }
    },
  }
}
