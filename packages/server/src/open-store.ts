/** Where the data lies, by the settings: one SQLite file, or a database. The one place that knows every kind of store. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { millis } from '@curfew/core'
import { nodeHost, systemRandom } from './host.ts'
import { IN_MEMORY } from './store/sqlite/in-memory.ts'
import type { EventRetention, Store } from './store/store.ts'
import { hidePassword, SettingsError, type Settings } from './settings.ts'

export type Place =
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'memory' }
  | { readonly kind: 'database'; readonly url: string }

export function placeOf(settings: Settings): Place {
  const { database, data } = settings
  if (database === null || database === undefined)
    return data === IN_MEMORY ? { kind: 'memory' } : { kind: 'file', file: join(resolve(String(data)), 'curfew.db') }
  if (!/^postgres(ql)?:\/\/./.test(String(database)) || !URL.canParse(String(database)))
    throw new SettingsError('The database must be given as postgres://user:password@host:port/name.')
  return { kind: 'database', url: String(database) }
}

/** As it may be shown to anybody. */
export function nameOf(place: Place): string {
  if (place.kind === 'memory') return 'memory'
  return place.kind === 'file' ? place.file : hidePassword(place.url)
}

/** Whether there may be stored tokens: not in a file that is still to be made. */
export function mayHoldTokens(settings: Settings): boolean {
  const place = placeOf(settings)
  return place.kind === 'database' || (place.kind === 'file' && existsSync(place.file))
}

/**
 * `mustExist`: a file that is not there is not made. (A database is never made, only what belongs into it.)
 * `hasClock`: the engine brings a clock of its own.
 */
export async function openStore(
  settings: Settings,
  { mustExist = false, hasClock = settings['clock'] === 'manual' } = {},
): Promise<Store> {
  const place = placeOf(settings)
  const events: EventRetention = {
    maxAgeMs: millis(Number(settings['retention.events'])),
    maxCount: Number(settings['retention.events-max']),
  }
  if (place.kind === 'database') {
    const clock = hasClock ? 'engine' : 'database'
    // A store is loaded only where it is used: PostgreSQL needs no native module, and a file needs no driver for a network.
    const { openPostgresStore } = await import('./store/postgres/store.ts')
    return openPostgresStore({ url: place.url, events, host: nodeHost, random: systemRandom(), clock })
  }
  if (mustExist && !(place.kind === 'file' && existsSync(place.file)))
    throw new Error(`There is no data: ${nameOf(place)} does not exist.`)
  if (place.kind === 'file') makeDirectory(dirname(place.file))
  const { openSqliteStore } = await import('./store/sqlite/store.ts')
  return openSqliteStore({
    file: place.kind === 'file' ? place.file : IN_MEMORY,
    durability: settings['durability'] === 'normal' ? 'normal' : 'full',
    events,
    monotonicMs: () => nodeHost.monotonicMs(),
  })
}

/** What to say where others on this machine can read the data; null where they cannot. Rights that were given stay. */
export function openToOthers(settings: Settings): string | null {
  const place = placeOf(settings)
  if (place.kind !== 'file' || process.platform === 'win32') return null
  const directory = dirname(place.file)
  const isOpen = (path: string): boolean => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0
  if (!isOpen(directory) || !isOpen(place.file)) return null
  return `other users of this machine may read ${place.file}, with all jobs and the secrets of webhooks; to end that: chmod 700 ${directory}`
}

const NO_DIRECTORY: Readonly<Record<string, string>> = {
  EEXIST: 'it is a file',
  ENOTDIR: 'a part of its path is a file',
  EACCES: 'this user may not make it',
  EPERM: 'this user may not make it',
  EROFS: 'the disk is read-only',
}

function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    const reason = NO_DIRECTORY[code] ?? message
    throw new Error(`${directory} cannot be the data directory: ${reason}. Choose another with --data.`, {
      cause: error,
    })
  }
}
