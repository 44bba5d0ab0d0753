/** Server, SDK and isolates on Node 24, and with them the SQLite that is built into it. Skipped where there is no Node 24. */
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { node24Path } from '../../scripts/node24.mjs'
import { runNode, ServerProcess, temporaryDirectory, within } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const executable = node24Path()

describe.skipIf(executable === null)('on Node 24', () => {
  const node24 = executable ?? ''

  async function run(script: string, url: string): Promise<string> {
    const child = runNode(script, { CURFEW_URL: url }, node24)
    const exit = await within(`${script} ends`, child.exited, 100_000)
    expect(exit, child.output.stderr).toEqual({ code: 0, signal: null })
    return child.output.stdout
  }

  test('a job is stored, worked on, timed out and explained, and the server prints no warning', async () => {
    const server = await ServerProcess.start({ executable: node24 })
    const program = /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1] ?? ''
    const home = temporaryDirectory()
    symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))
    const file = join(home, 'first.mjs')
    writeFileSync(file, program.replace('http://127.0.0.1:8080', server.url))
    const said = await run(file, server.url)
    expect(said).toMatch(/^Hello, Ada! \d+ ms left\.$/m)
    expect(said).toMatch(/^Ended discarded: timeout /m)
    expect(server.stderr).not.toContain('Warning')
    await server.stop()
  })

  test('what was acknowledged is still there after kill -9', async () => {
    const server = await ServerProcess.start({ executable: node24 })
    const { status, body } = await server.post('/ojs/v1/jobs', { type: 'email.send', args: ['ada@example.com'] })
    expect(status).toBe(201)
    await server.kill()
    const again = await ServerProcess.start({ executable: node24, data: server.data })
    const { body: found } = await again.get(`/ojs/v1/jobs/${String(body.id ?? body.job.id)}`)
    expect(found.job.state).toBe('available')
    await again.stop()
  })

  test('a data file that better-sqlite3 wrote is served', { skip: process.execPath === node24 }, async () => {
    const before = await ServerProcess.start()
    const { body } = await before.post('/ojs/v1/jobs', { type: 'email.send', args: ['ada@example.com'] })
    await before.stop()
    const after = await ServerProcess.start({ executable: node24, data: before.data })
    const { body: fetched } = await after.post('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: 'worker-1' })
    expect(fetched).toMatchObject({ jobs: [{ id: String(body.id ?? body.job.id) }] })
    await after.stop()
  })

  test('a backup is made beside the server, and better-sqlite3 reads it', async () => {
    const server = await ServerProcess.start({ executable: node24 })
    const { id } = await server.enqueue()
    const copy = join(temporaryDirectory(), 'copy.db')
    const main = join(root, 'packages', 'server', 'dist', 'cli', 'main.js')
    const backup = runNode([main, 'backup', copy, '--data', server.data], {}, node24)
    expect(await within('the backup ends', backup.exited)).toEqual({ code: 0, signal: null })
    expect(backup.output.stderr).toMatch(/^Copied .* verified and on disk\.\n$/)
    await server.stop()
    const restored = temporaryDirectory()
    copyFileSync(copy, join(restored, 'curfew.db'))
    const again = await ServerProcess.start({ data: restored })
    expect((await again.job(String(id))).state).toBe('available')
    await again.stop()
  })

  test('a busy loop in a thread and in a process is stopped', async () => {
    const server = await ServerProcess.start({ executable: node24 })
    const said = await run(join(root, 'examples', 'busy-loop', 'main.mjs'), server.url)
    expect(said).toMatch(/^thread: timeout after \d+ ms/m)
    expect(said).toMatch(/^process: timeout after \d+ ms/m)
    await server.stop()
  })
})
