// A client that costs next to nothing: bytes prepared once, one request at a time per kept-alive connection, and of the
// answer only what is needed to find its end. Node's own client would cost as much as the server it measures.
import { Buffer } from 'node:buffer'
import { connect } from 'node:net'

export function requestBytes(method, path, body = '') {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const length = Buffer.byteLength(text)
  return Buffer.from(
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${text}`,
  )
}

const HEAD_END = Buffer.from('\r\n\r\n')

export class Connection {
  #socket
  #pending = Buffer.alloc(0)
  #done = null
  #failed = null

  constructor(port) {
    this.#socket = connect(port, '127.0.0.1')
    this.#socket.setNoDelay(true)
    this.#socket.on('data', (chunk) => this.#read(chunk))
    this.#socket.on('error', (error) => this.#fail(error))
    this.#socket.on('close', () => this.#fail(new Error('the connection was closed')))
  }

  /** Calls back with the status and the body's bytes. */
  send(bytes, done, failed) {
    if (this.#socket.destroyed) return failed?.(new Error('the connection was closed'))
    this.#done = done
    this.#failed = failed
    this.#socket.write(bytes)
  }

  request(bytes) {
    return new Promise((resolve, reject) => {
      this.send(bytes, (status, body) => resolve({ status, body }), reject)
    })
  }

  close() {
    this.#socket.destroy()
  }

  #read(chunk) {
    const bytes = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    const headEnd = bytes.indexOf(HEAD_END)
    if (headEnd >= 0) {
      const head = bytes.latin1Slice(0, headEnd)
      const end = headEnd + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      if (bytes.length >= end) {
        this.#pending = bytes.subarray(end)
        const done = this.#done
        this.#done = null
        done(Number(head.slice(9, 12)), bytes.subarray(headEnd + 4, end))
        return
      }
    }
    this.#pending = bytes
  }

  #fail(error) {
    if (this.#done === null) return
    this.#done = null
    this.#failed?.(error)
  }
}

/** So many connections, shared by callers who wait for a free one. */
export class Pool {
  #free
  #waiting = []

  constructor(port, connections) {
    this.all = Array.from({ length: connections }, () => new Connection(port))
    this.#free = [...this.all]
  }

  request(bytes) {
    return new Promise((resolve, reject) => {
      const call = { bytes, resolve, reject }
      const connection = this.#free.pop()
      if (connection === undefined) this.#waiting.push(call)
      else this.#start(connection, call)
    })
  }

  /** The answer parsed; throws when it is none of the expected ones. */
  async json(method, path, body, expected = 200) {
    const { status, body: bytes } = await this.request(requestBytes(method, path, body))
    if (status !== expected) throw new Error(`${method} ${path} answered ${status}: ${bytes.toString()}`)
    return JSON.parse(bytes.toString())
  }

  close() {
    for (const connection of this.all) connection.close()
  }

  #start(connection, { bytes, resolve, reject }) {
    const next = () => {
      const call = this.#waiting.shift()
      if (call === undefined) this.#free.push(connection)
      else this.#start(connection, call)
    }
    connection.send(
      bytes,
      (status, body) => {
        resolve({ status, body })
        next()
      },
      reject,
    )
  }
}

/** The same request again and again on each connection, for so long. Answers how many were answered, and how quickly. */
export async function hammer({ port, connections, forMs, bytes, expected }) {
  const open = Array.from({ length: connections }, () => new Connection(port))
  const latencies = []
  const began = performance.now()
  const endsAt = began + forMs
  await Promise.all(
    open.map(
      (connection) =>
        new Promise((resolve, reject) => {
          const next = () => {
            const sentAt = performance.now()
            if (sentAt >= endsAt) return resolve()
            connection.send(
              bytes,
              (status, body) => {
                if (status !== expected) return reject(new Error(`answered ${status}: ${body.toString()}`))
                latencies.push(performance.now() - sentAt)
                next()
              },
              reject,
            )
          }
          next()
        }),
    ),
  )
  const elapsedMs = performance.now() - began
  for (const connection of open) connection.close()
  latencies.sort((a, b) => a - b)
  return {
    count: latencies.length,
    perSecond: (latencies.length / elapsedMs) * 1000,
    p50Ms: latencies[Math.floor(latencies.length * 0.5)],
    p99Ms: latencies[Math.floor(latencies.length * 0.99)],
  }
}
