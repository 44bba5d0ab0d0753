/** `curfew migrate`: brings the data's schema up to date without starting a server, and says what was done. */
import { existsSync } from 'node:fs'
import { migrateFile } from '../store/sqlite/connection.ts'
import { notBuiltIn, placeOf } from './open-store.ts'
import type { Settings } from './settings.ts'

export async function migrate(settings: Settings): Promise<string> {
  const place = placeOf(settings)
  if (place.kind === 'database') throw notBuiltIn()
  const { file } = place
  if (!existsSync(file)) return `${file} does not exist yet; the server makes it when it starts.`
  const { from, to } = migrateFile(file)
  const done =
    from === to
      ? `has schema ${String(to)}, which is the newest`
      : `had schema ${String(from)} and now has ${String(to)}`
  return `${file} ${done}. A file is brought up to date whenever it is opened, so this command is never needed for one.`
}
