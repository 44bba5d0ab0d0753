import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openServer } from './server.ts'

/** Windows has no such rights. */
describe.skipIf(process.platform === 'win32')('the rights on the data', () => {
  let place: string
  let umask: number

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'curfew-rights-'))
    // Whatever the machine takes away by itself would hide what is given.
    umask = process.umask(0)
  })

  afterEach(() => {
    process.umask(umask)
    rmSync(place, { recursive: true })
  })

  const rights = (path: string): string => (statSync(path).mode & 0o777).toString(8)

  /** What it warned of while it was open, and the rights it had given by then. */
  async function served(data: string): Promise<{ warned: string[]; files: Record<string, string> }> {
    const warned: string[] = []
    const log = { info: () => {}, warn: (_: object, text: string) => void warned.push(text), error: () => {} }
    const server = await openServer({ data, log })
    const files = Object.fromEntries(readdirSync(data).map((name) => [name, rights(join(data, name))]))
    await server.close()
    return { warned, files }
  }

  test('are the owner’s alone where the server makes folder and files', async () => {
    const data = join(place, 'new', 'data')
    const { warned, files } = await served(data)
    expect([rights(data), warned]).toEqual(['700', []])
    for (const name of ['curfew.db', 'curfew.db-shm', 'curfew.db-wal', 'curfew.db.lock'])
      expect(Object.keys(files)).toContain(name)
    expect(new Set(Object.values(files))).toEqual(new Set(['600']))
  })

  test('of a folder that was there stay; the files in it are the owner’s alone', async () => {
    const data = join(place, 'there')
    mkdirSync(data, { mode: 0o755 })
    const { warned, files } = await served(data)
    expect([rights(data), warned]).toEqual(['755', []])
    expect(new Set(Object.values(files))).toEqual(new Set(['600']))
  })

  test('of a file that others may read stay, and the log says how to end that', async () => {
    const data = join(place, 'open')
    mkdirSync(data, { mode: 0o755 })
    await served(data)
    chmodSync(join(data, 'curfew.db'), 0o644)
    const { warned, files } = await served(data)
    expect(files['curfew.db']).toBe('644')
    expect(warned).toEqual([expect.stringContaining('chmod 700')])
    chmodSync(data, 0o700)
    expect((await served(data)).warned).toEqual([])
  })
})
