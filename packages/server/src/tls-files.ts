/**
 * The certificate and its key, from two files that may be replaced while the server runs. They are looked at every second;
 * a pair that cannot be used stops the start, and later leaves the one before in use.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Host, Timer } from '@curfew/core'
import type { Log } from './engine/kernel/context.ts'
import type { Certificate, KeyPair } from './http/transport/listen.ts'
import { SettingsError } from './settings.ts'

const LOOK_EVERY_MS = 1_000

export function openTlsFiles(cert: string | null, key: string | null, log: Log, host: Host): Certificate | null {
  if (cert === null && key === null) return null
  if (cert === null || key === null)
    throw new SettingsError(`${cert === null ? '--tls-cert' : '--tls-key'} is missing: HTTPS needs both files.`)
  return new TlsFiles(cert, key, log, host)
}

class TlsFiles implements Certificate {
  readonly #cert: string
  readonly #key: string
  readonly #log: Log
  readonly #host: Host
  readonly #followers = new Set<(pair: KeyPair) => void>()
  #current: KeyPair
  #stamp: string
  #timer: Timer | null = null

  constructor(cert: string, key: string, log: Log, host: Host) {
    this.#cert = cert
    this.#key = key
    this.#log = log
    this.#host = host
    this.#stamp = this.#stampOf()
    try {
      this.#current = this.#read()
    } catch (error) {
      throw new SettingsError(`Cannot use the certificate ${cert} with the key ${key}: ${reasonOf(error)}`)
    }
  }

  get current(): KeyPair {
    return this.#current
  }

  follow(apply: (pair: KeyPair) => void): () => void {
    this.#followers.add(apply)
    this.#timer ??= this.#lookLater()
    return () => {
      this.#followers.delete(apply)
      if (this.#followers.size > 0) return
      this.#timer?.cancel()
      this.#timer = null
    }
  }

  #lookLater(): Timer {
    return this.#host.setTimer(LOOK_EVERY_MS, () => {
      this.#look()
      this.#timer = this.#followers.size > 0 ? this.#lookLater() : null
    })
  }

  #look(): void {
    const stamp = this.#stampOf()
    if (stamp === this.#stamp) return
    this.#stamp = stamp
    const files = { cert: this.#cert, key: this.#key }
    try {
      const pair = this.#read()
      for (const apply of this.#followers) apply(pair)
      this.#current = pair
      this.#log.info({ ...files, validTo: new X509Certificate(pair.cert).validTo }, 'TLS certificate reloaded')
    } catch (error) {
      this.#log.error(
        { ...files, reason: reasonOf(error) },
        'the new TLS certificate cannot be used; the one before stays in use until the files change again',
      )
    }
  }

  /** Throws when the two do not fit each other. */
  #read(): KeyPair {
    const pair = { cert: readFileSync(this.#cert), key: readFileSync(this.#key) }
    createSecureContext(pair)
    const { validTo } = new X509Certificate(pair.cert)
    if (Date.parse(validTo) <= this.#host.wallMs())
      this.#log.warn({ cert: this.#cert, validTo }, 'the TLS certificate has expired; callers will refuse it')
    return pair
  }

  #stampOf(): string {
    return [this.#cert, this.#key]
      .map((file) => statSync(file, { throwIfNoEntry: false }))
      .map((stat) => (stat === undefined ? 'missing' : [stat.ino, stat.mtimeMs, stat.ctimeMs, stat.size].join(' ')))
      .join(', ')
  }
}

/** Never a part of the files: what OpenSSL says names the kind of fault only. */
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
