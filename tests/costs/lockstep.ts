/**
 * A door between a server and its PostgreSQL that makes round trips countable. It passes questions on at once and holds
 * the answers back until every question is answered and the server has nothing more to ask without them; then it hands
 * over all answers together. That is one round trip, as on a network so slow that everything that can be asked at the
 * same time is. How fast the machine, the database or the loopback is does not matter.
 *
 * The server has to run in this process: its sockets tell whether something is still on its way.
 */
import { once } from 'node:events'
import { connect, createServer, Socket, type AddressInfo, type Server } from 'node:net'
import { Conversation, Messages, WireCounts } from './wire.ts'

/** So many turns of the event loop without a word: the server waits for answers. Nothing in it defers work for longer. */
const QUIET_TURNS = 20

export interface WireTotals {
  readonly wire: WireCounts
  readonly roundTrips: number
}

export class Lockstep {
  readonly #server: Server
  readonly #lines = new Set<Line>()
  readonly #clients = new Map<number, Socket>()
  readonly #forget: () => void
  #counts: WireCounts | null = null
  #roundTrips = 0
  #quietTurns = 0
  #looking = false

  private constructor(host: string, port: number) {
    this.#forget = onConnect((socket) => {
      if (socket.remotePort === this.port && socket.localPort !== undefined) this.#clients.set(socket.localPort, socket)
    })
    this.#server = createServer((socket) => {
      const line = new Line(socket, connect({ host, port }), () => this.#counts, this.#stirred)
      this.#lines.add(line)
      socket.on('close', () => this.#lines.delete(line))
    })
  }

  static async open(host: string, port: number): Promise<Lockstep> {
    const door = new Lockstep(host, port)
    door.#server.listen(0, '127.0.0.1')
    await once(door.#server, 'listening')
    return door
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Whether something is on its way, unanswered or held back. */
  get isBusy(): boolean {
    return this.#looking || [...this.#lines].some((line) => line.isWaiting || this.#isOnTheWay(line))
  }

  start(): void {
    this.#counts = new WireCounts()
    this.#roundTrips = 0
  }

  stop(): WireTotals {
    const wire = this.#counts
    if (wire === null) throw new Error('not started')
    this.#counts = null
    return { wire, roundTrips: this.#roundTrips }
  }

  /** Runs a statement on every connection of the server that is open and idle. The server does not see its answer. */
  async onEach(statement: string): Promise<void> {
    await Promise.all([...this.#lines].map((line) => line.inject(statement)))
  }

  async close(): Promise<void> {
    this.#forget()
    for (const line of this.#lines) line.end()
    this.#server.close()
    await once(this.#server, 'close')
  }

  readonly #stirred = (): void => {
    this.#quietTurns = 0
    if (this.#looking) return
    this.#looking = true
    setImmediate(this.#look)
  }

  readonly #look = (): void => {
    const lines = [...this.#lines]
    if (lines.some((line) => line.isWaiting)) {
      // The answer of the database will stir again.
      this.#looking = false
      return
    }
    this.#quietTurns = lines.some((line) => this.#isOnTheWay(line)) ? 0 : this.#quietTurns + 1
    if (this.#quietTurns < QUIET_TURNS) {
      setImmediate(this.#look)
      return
    }
    this.#looking = false
    let answers = 0
    for (const line of lines) answers += line.release()
    if (answers > 0) this.#roundTrips += 1
  }

  /** Whether one side has written what the other has not read. */
  #isOnTheWay({ socket }: Line): boolean {
    const client = this.#clients.get(socket.remotePort ?? -1)
    if (client === undefined || client.destroyed || socket.destroyed) return false
    return client.bytesWritten !== socket.bytesRead || socket.bytesWritten !== client.bytesRead
  }
}

/** Sees every connection that this process opens from now on. */
function onConnect(see: (socket: Socket) => void): () => void {
  const prototype = Socket.prototype as unknown as Record<'connect', Connect>
  const before = prototype.connect
  prototype.connect = function (...to) {
    this.once('connect', () => see(this))
    return before.apply(this, to)
  }
  return () => void (prototype.connect = before)
}

type Connect = (this: Socket, ...to: unknown[]) => Socket

/** One connection of the server, and the one to the database that belongs to it. */
class Line {
  readonly socket: Socket
  readonly #database: Socket
  readonly #countsNow: () => WireCounts | null
  readonly #stirred: () => void
  readonly #questions = new Messages()
  readonly #answers = new Messages()
  readonly #conversation = new Conversation()
  /** Until the database is ready for the first time everything passes at once. */
  #begun = false
  #held: Buffer[] = []
  #heldAnswers = 0
  #injected: { readonly done: () => void; readonly waiting: Buffer[] } | null = null

  constructor(socket: Socket, database: Socket, countsNow: () => WireCounts | null, stirred: () => void) {
    this.socket = socket
    this.#database = database
    this.#countsNow = countsNow
    this.#stirred = stirred
    socket.setNoDelay(true)
    database.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#ask(chunk))
    database.on('data', (chunk: Buffer) => this.#answer(chunk))
    socket.on('end', () => database.end())
    socket.on('error', () => database.destroy())
    socket.on('close', () => database.destroy())
    database.on('error', () => socket.destroy())
    database.on('close', () => {
      this.release()
      socket.end()
    })
  }

  get isWaiting(): boolean {
    return this.#conversation.isWaiting || this.#injected !== null
  }

  /** Hands over what was held back. Gives how much of it answers a question. */
  release(): number {
    const answers = this.#heldAnswers
    if (this.#held.length > 0 && !this.socket.destroyed) this.socket.write(Buffer.concat(this.#held))
    this.#held = []
    this.#heldAnswers = 0
    return answers
  }

  async inject(statement: string): Promise<void> {
    if (!this.#begun) return
    if (!this.#conversation.isIdle || this.#injected !== null) throw new Error('the connection is not idle')
    const text = Buffer.from(`${statement}\0`)
    const head = Buffer.from([0x51, 0, 0, 0, 0])
    head.writeUInt32BE(text.length + 4, 1)
    await new Promise<void>((done) => {
      this.#injected = { done, waiting: [] }
      this.#database.write(Buffer.concat([head, text]))
    })
  }

  end(): void {
    this.socket.destroy()
    this.#database.destroy()
  }

  #ask(chunk: Buffer): void {
    if (this.#injected !== null) {
      this.#injected.waiting.push(chunk)
      return
    }
    if (this.#begun) {
      const counts = this.#countsNow()
      for (const message of this.#questions.add(chunk)) this.#conversation.asked(message, counts)
    }
    this.#database.write(chunk)
    this.#stirred()
  }

  #answer(chunk: Buffer): void {
    for (const message of this.#answers.add(chunk)) {
      const letter = String.fromCharCode(message[0] ?? 0)
      if (!this.#begun) {
        this.socket.write(message)
        this.#begun = letter === 'Z'
      } else if (letter === 'A' || this.#injected === null) {
        this.#hold(message, letter)
      } else if (letter === 'Z') {
        const { done, waiting } = this.#injected
        this.#injected = null
        done()
        for (const one of waiting) this.#ask(one)
      }
    }
    this.#stirred()
  }

  #hold(message: Buffer, letter: string): void {
    this.#conversation.answered(message, this.#countsNow())
    this.#held.push(message)
    if (letter !== 'A' && letter !== 'N' && letter !== 'S') this.#heldAnswers += 1
  }
}
