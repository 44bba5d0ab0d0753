/**
 * Where secrets come from: the environment (or the program that embeds the server), and a file of names and values that may change while the server runs. The
 * environment wins. A file that cannot be read stops the start; later the values read before stay in use.
 */
import { statSync } from 'node:fs'
import type { Host } from '@curfew/core'
import { SECRET_VARIABLES, secretVariable, type Secrets } from './engine/journeys/call-auth.ts'
import type { Log } from './engine/kernel/context.ts'
import { readMapping } from './setting-file.ts'
import { SettingsError } from './settings.ts'

/** How often the file is looked at, at most. */
const LOOK_EVERY_MS = 1_000

export interface SecretSources {
  /** By name. */
  readonly given: Readonly<Record<string, string>>
  readonly file: string | null
  readonly log: Log
  readonly host: Pick<Host, 'monotonicMs'>
}

/** From variables such as CURFEW_SECRET_PAYMENTS_TOKEN; several names may lead to one variable. */
export function secretsInEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith(SECRET_VARIABLES) && entry[1] !== undefined,
    ),
  )
}

export function openSecrets({ given, file, log, host }: SecretSources): Secrets {
  const known = new Map(Object.entries(given))
  const kept = file === null ? null : new SecretFile(file, log, host)
  return { valueOf: (name) => known.get(name) ?? known.get(secretVariable(name)) ?? kept?.valueOf(name) ?? null }
}

class SecretFile {
  readonly #file: string
  readonly #log: Log
  readonly #host: SecretSources['host']
  #values: ReadonlyMap<string, string>
  #stamp: string
  #lookedMs: number

  constructor(file: string, log: Log, host: SecretSources['host']) {
    this.#file = file
    this.#log = log
    this.#host = host
    this.#stamp = stampOf(file)
    this.#values = readSecrets(file)
    this.#lookedMs = host.monotonicMs()
    warnIfReadable(file, log)
  }

  valueOf(name: string): string | null {
    this.#look()
    return this.#values.get(name) ?? null
  }

  #look(): void {
    const nowMs = this.#host.monotonicMs()
    if (nowMs - this.#lookedMs < LOOK_EVERY_MS) return
    this.#lookedMs = nowMs
    const stamp = stampOf(this.#file)
    if (stamp === this.#stamp) return
    this.#stamp = stamp
    try {
      this.#values = readSecrets(this.#file)
      this.#log.info({ file: this.#file, secrets: this.#values.size }, 'the secrets file was read again')
    } catch (error) {
      const why = error instanceof Error ? error.message : 'unknown'
      this.#log.warn({ file: this.#file, error: why }, 'the secrets file cannot be read; the values before stay in use')
    }
  }
}

function stampOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false })
  return stat === undefined ? 'missing' : `${String(stat.ino)} ${String(stat.mtimeMs)} ${String(stat.size)}`
}

function readSecrets(file: string): Map<string, string> {
  const entries = Object.entries(readMapping(file, 'the secrets file', 'payments-token: "…"'))
  const wrong = entries.find(([, value]) => typeof value !== 'string' || value === '')
  if (wrong !== undefined)
    throw new SettingsError(`The secret ${JSON.stringify(wrong[0])} in ${file} must be a text; put it in quotes.`)
  return new Map(entries as [string, string][])
}

function warnIfReadable(file: string, log: Log): void {
  const mode = statSync(file).mode & 0o777
  if (process.platform === 'win32' || (mode & 0o077) === 0) return
  log.warn({ file, mode: mode.toString(8) }, 'other users can read the secrets file; chmod 600 it')
}
