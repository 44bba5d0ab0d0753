/** `curfew migrate`: brings the data's schema up to date without starting a server, and says what was done. */
import { existsSync } from 'node:fs'
import { migrateFile } from '../store/sqlite/connection.ts'
import { nameOf, placeOf } from '../open-store.ts'
import type { Settings } from '../settings.ts'

/** `contract`: no server of an older version is left, so what only they needed may go too. A file has but one server. */
export async function migrate(settings: Settings, contract: boolean): Promise<string> {
  const place = placeOf(settings)
  if (place.kind === 'memory') return 'Data in memory needs no migration: every server starts with an empty store.'
  if (place.kind === 'file') return migrated(place.file)
  const { migrateDatabase } = await import('../store/postgres/store.ts')
  const { applied, waiting } = await migrateDatabase(place.url, { contract })
  const lines = applied.map((name) => `applied ${name}`)
  if (lines.length === 0) lines.push(waiting.length === 0 ? 'up to date, nothing to do' : 'nothing applied')
  for (const name of waiting)
    lines.push(
      `not applied ${name}: it removes what older servers need; run again with --contract when no older server is left`,
    )
  return lines.map((line) => `${nameOf(place)}: ${line}`).join('\n')
}

function migrated(file: string): string {
  if (!existsSync(file)) return `${file} does not exist yet; the server creates it when it starts.`
  const { from, to } = migrateFile(file)
  const done =
    from === to
      ? `has schema ${String(to)}, which is the newest`
      : `had schema ${String(from)} and now has ${String(to)}`
  return `${file} ${done}. The server migrates a data file when it opens it, so this command is only needed for PostgreSQL.`
}
