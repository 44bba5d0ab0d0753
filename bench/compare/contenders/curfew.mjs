// Curfew as an operator starts it: a server process with its default, full durability, and the SDK in the client.
import { sdkOf } from '../../lib/against.mjs'
import { startServer } from '../../lib/processes.mjs'

const DRIVER = new URL('../drivers/curfew.mjs', import.meta.url).href
const QUEUE = 'work'

/** `more`: of a variant, e.g. `limits` for every job. */
const settings = (server, root, more = {}) => ({ sdk: sdkOf(root), port: server.port, queue: QUEUE, ...more })

/** The build that is measured, or another one beside it: `rootOf` picks its folder from the stage. */
const build = (id, name, rootOf) => [
  {
    id: `${id}-sqlite`,
    label: `${name}, SQLite`,
    kind: 'curfew',
    driver: DRIVER,
    async start(stage, more) {
      const root = rootOf(stage)
      const server = await startServer({ root })
      return { server, settings: settings(server, root, more), pid: server.pid, stop: () => server.stop() }
    },
  },
  {
    id: `${id}-postgres`,
    label: `${name}, PostgreSQL`,
    kind: 'curfew',
    driver: DRIVER,
    async start(stage, more) {
      const root = rootOf(stage)
      const database = await (await stage.postgres()).create()
      const server = await startServer({ root, database: database.url })
      const stop = async () => {
        await server.stop()
        await database.drop()
      }
      return { server, settings: settings(server, root, more), pid: server.pid, stop }
    },
  },
]

export const CURFEW = build('curfew', 'Curfew', ({ curfew }) => curfew)
export const OTHER_BUILD = build('other', 'other build', ({ beside }) => beside)
