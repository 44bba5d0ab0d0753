/** `curfew serve`: the row of the table. */
import type { Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'

export const SERVE: Command = {
  name: 'serve',
  summary: 'start the server',
  settings: true,
  async run({ settings }) {
    const loaded = settings()
    const { runServer } = await import('./serve-process.ts')
    await runServer(loaded)
    return EXIT.fine
  },
}
