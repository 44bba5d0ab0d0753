/** `curfew check`: whether a data file holds what was written to it. Reads only; a server may have the file open. */
import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { placeOf } from '../open-store.ts'
import { SettingsError, type Settings } from '../settings.ts'
import { adviceFor, isDamage, openingError, refuseEmpty } from '../store/sqlite/connection.ts'
import { Database, type Connection } from '../store/sqlite/driver.ts'

/** At most this many problems are printed: a damaged file often has thousands. */
const MAX_PROBLEMS = 20

export interface Checked {
  readonly isSound: boolean
  readonly text: string
}

export function checkFile(settings: Settings, named: string | undefined): Checked {
  const file = named === undefined ? fileOf(settings) : resolve(named)
  if (named === undefined && existsSync(dirname(file)) && !statSync(dirname(file)).isDirectory())
    throw new SettingsError(`--data names a folder, and ${dirname(file)} is a file: curfew check ${dirname(file)}`)
  if (!existsSync(file)) throw new Error(`${file} does not exist.`)
  if (statSync(file).isDirectory()) throw new Error(`${file} is a directory. Name the data file in it, or use --data.`)
  const problems = problemsOf(file)
  if (problems.length === 0) return { isSound: true, text: `${file} is sound.` }
  return {
    isSound: false,
    text: [
      `${file} is damaged.`,
      ...problems.map((problem) => `  ${problem}`),
      '',
      'What to do:',
      ...adviceFor(file).map((step, index) => `  ${String(index + 1)}. ${step}`),
    ].join('\n'),
  }
}

function fileOf(settings: Settings): string {
  const place = placeOf(settings)
  if (place.kind === 'file') return place.file
  throw new SettingsError(
    place.kind === 'memory'
      ? 'Data in memory cannot be checked. Name a data file: curfew check FILE.'
      : 'curfew check reads SQLite data files. Check PostgreSQL with pg_amcheck.',
  )
}

function problemsOf(file: string): readonly string[] {
  let db: Connection | null = null
  try {
    refuseEmpty(file)
    db = new Database(file, { readonly: true, fileMustExist: true })
    const rows = db.pragma(`quick_check(${String(MAX_PROBLEMS)})`) as { readonly quick_check: string }[]
    return rows.map(({ quick_check: problem }) => problem).filter((problem) => problem !== 'ok')
  } catch (error) {
    // Damage so early in the file that the check itself cannot begin.
    if (db !== null && isDamage(error) && !isForeign(error)) return [messageOf(error)]
    throw openingError(error, file)
  } finally {
    db?.close()
  }
}

const isForeign = (error: unknown): boolean => (error as { code?: unknown }).code === 'SQLITE_NOTADB'
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
