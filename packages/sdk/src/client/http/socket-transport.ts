/** Calls over HTTP/1.1 on sockets of our own: connections that are kept, and nothing per call that is not needed. */
import { connect as connectPlain, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectSecure, type ConnectionOptions } from 'node:tls'
import type { Host } from '@curfew/core'
import { InputError } from '../../errors.ts'
import { unreachable, type Begun, type Transport, type TransportResponse } from '../transport.ts'
import { deferred } from '../../waiting.ts'
import { ConnectionPool } from './connection-pool.ts'
import { MAX_BODY_BYTES, StaleConnectionError, type Carried, type HttpConnection } from './http-connection.ts'
import { RequestWriter, type RequestParts, type RequestText } from './request-text.ts'

/** For tests; the defaults are in the files that use them. */
export interface SocketSettings {
  readonly maxConnections?: number
  readonly maxBodyBytes?: number
  readonly ca?: ConnectionOptions['ca']
  readonly lookup?: LookupFunction
}

/** A connection through which nothing was heard for this long is probed, so that a dead one is noticed. */
const PROBE_MS = 60_000

export function socketTransport(baseUrl: string, host: Host, settings: SocketSettings = {}): Transport {
  const base = baseUrl.replace(/\/+$/, '')
  const address = addressOf(baseUrl)
  const writer = new RequestWriter(address)
  const pool = new ConnectionPool(() => open(address, settings), host, settings.maxConnections)
  return {
    begin: (request) => {
      const call = new SocketCall(pool, base, request, writer.write(request), settings.maxBodyBytes ?? MAX_BODY_BYTES)
      pool.carry(call)
      return call
    },
    close: () => {
      pool.close()
    },
  }
}

class SocketCall implements Carried, Begun {
  readonly request: RequestText
  readonly isHead: boolean
  readonly wantsStream: boolean
  readonly maxBodyBytes: number
  readonly #pool: ConnectionPool
  readonly #base: string
  readonly #outcome = deferred<TransportResponse>()
  #connection: HttpConnection | null = null

  constructor(
    pool: ConnectionPool,
    base: string,
    { method, headers }: RequestParts,
    request: RequestText,
    maxBodyBytes: number,
  ) {
    this.#pool = pool
    this.#base = base
    this.request = request
    this.isHead = method === 'HEAD'
    this.wantsStream = headers['accept'] === 'text/event-stream'
    this.maxBodyBytes = maxBodyBytes
  }

  get answer(): Promise<TransportResponse> {
    return this.#outcome.promise
  }

  carriedBy(connection: HttpConnection): void {
    this.#connection = connection
  }

  answered(response: TransportResponse): void {
    // A stream is still on it.
    if (typeof response.body === 'string') this.#connection = null
    this.#outcome.resolve(response)
  }

  failed(error: Error): void {
    this.#connection = null
    if (error instanceof StaleConnectionError) this.#pool.dropIdle()
    this.#outcome.reject(unreachable(this.#base, error))
  }

  /** Closes the connection: the rest of the answer would otherwise come before the next one. */
  abort(reason: Error): void {
    this.#outcome.reject(reason)
    const connection = this.#connection
    this.#connection = null
    if (connection === null) this.#pool.forget(this)
    else connection.destroy(this)
  }
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : null
  if (address === null)
    throw new InputError(`url must be an address such as 'http://127.0.0.1:8080'.`, { field: 'url' })
  if (address.username !== '' || address.password !== '')
    throw new InputError('url must not hold a name and a password: give a token.', { field: 'url' })
  return address
}

/** Where a name has addresses of both families, the one that answers first is taken. */
function open({ protocol, hostname, port }: URL, { ca, lookup }: SocketSettings): Socket {
  const name = hostname.replace(/^\[|\]$/g, '')
  const isSecure = protocol === 'https:'
  const options = {
    host: name,
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: PROBE_MS,
    autoSelectFamily: true,
    ...(lookup === undefined ? {} : { lookup }),
  }
  if (!isSecure) return connectPlain(options)
  return connectSecure({
    ...options,
    ALPNProtocols: ['http/1.1'],
    ...(isIP(name) === 0 ? { servername: name } : {}),
    ...(ca === undefined ? {} : { ca }),
  })
}
