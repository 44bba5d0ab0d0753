/** `curfew migrate`: brings the data's schema up to date without starting a server, and says what was done. */
import { existsSync } from 'node:fs'
import { migrateDatabase } from '../store/postgres/store.ts'
import { migrateFile } from '../store/sqlite/connection.ts'
import { nameOf, placeOf } from '../open-store.ts'
import type { Settings } from '../settings.ts'

/** `contract`: no server of an older version is left, so what only they needed may go too. A file has but one server. */
export async function migrate(settings: Settings, contract: boolean): Promise<string> {
  const place = placeOf(settings)
  if (place.kind === 'memory') return 'What is only in memory is made anew by every server.'
  if (place.kind === 'file') return migrated(place.file)
  const { applied, waiting } = await migrateDatabase(place.url, { contract })
  const lines = applied.map((name) => `applied ${name}`)
  if (lines.length === 0) lines.push(waiting.length === 0 ? 'nothing to do: it is up to date' : 'nothing applied')
  for (const name of waiting)
    lines.push(
      `not applied ${name}: it takes away what older servers need; run again with --contract when none is left`,
    )
  return lines.map((line) => `${nameOf(place)}: ${line}`).join('\n')
}

function migrated(file: string): string {
  if (!existsSync(file)) return `${file} does not exist yet; the server makes it when it starts.`
  const { from, to } = migrateFile(file)
  const done =
    from === to
      ? `has schema ${String(to)}, which is the newest`
      : `had schema ${String(from)} and now has ${String(to)}`
  return `${file} ${done}. A file is brought up to date whenever it is opened, so this command is never needed for one.`
}
