// No job servers: what one call has to cost at least on this machine.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startProgram } from '../../lib/processes.mjs'

const DRIVER = new URL('../drivers/limits.mjs', import.meta.url).href
/** About what Curfew answers to a job. */
const ANSWER_BYTES = 500

const onDisk = (kind, label) => ({
  id: `limit-${kind}`,
  label,
  kind: 'limit',
  driver: DRIVER,
  async start() {
    const folder = mkdtempSync(join(tmpdir(), 'curfew-bench-'))
    return { settings: { kind, folder }, pid: null, stop: async () => rmSync(folder, { recursive: true, force: true }) }
  },
})

export const LIMITS = [
  {
    id: 'limit-http',
    label: 'limit: bare node:http',
    kind: 'limit',
    driver: DRIVER,
    async start() {
      const server = await startProgram('plain-server.mjs', [String(ANSWER_BYTES)])
      return { settings: { kind: 'http', port: server.port }, pid: server.pid, stop: server.stop }
    },
  },
  onDisk('sqlite', 'limit: SQLite insert and commit'),
  onDisk('fdatasync', 'limit: append and fdatasync'),
]
