/**
 * When the data file is damaged while the server runs: writes are refused for good and say what to do, health and the log
 * tell of it, and `curfew check` finds it in a file that a server has open.
 */
import { closeSync, fstatSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { curfew, ServerProcess, temporaryDirectory } from './server-process.ts'

const PAGE = 4_096

/** A data directory with jobs, whose file no process has open; and their ids. */
async function withJobs(): Promise<{ data: string; file: string; ids: string[] }> {
  const server = await ServerProcess.start()
  const jobs = Array.from({ length: 1_000 }, (_, n) => ({ type: 'test.job', args: [n, 'x'.repeat(500)] }))
  const reply = await server.post('/ojs/v1/jobs/batch', { jobs })
  expect(reply.status).toBe(201)
  await server.stop()
  const ids = (reply.body.jobs as { id: string }[]).map(({ id }) => id)
  return { data: server.data, file: join(server.data, 'curfew.db'), ids }
}

/** Writes over all pages but the first and the last few, where the schema and the newest rows are. */
function damage(file: string): void {
  const handle = openSync(file, 'r+')
  const pages = Math.floor(fstatSync(handle).size / PAGE)
  const garbage = Buffer.alloc(PAGE, 0x5a)
  for (let page = Math.floor(pages / 4); page < Math.floor((pages * 3) / 4); page += 1)
    writeSync(handle, garbage, 0, PAGE, page * PAGE)
  closeSync(handle)
}

const DAMAGED = { status: 503, body: { error: { code: 'storage_damaged', retryable: false } } }

/** Reads jobs until one lies on a damaged page. */
async function meetDamage(server: ServerProcess, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const reply = await server.get(`/ojs/v1/jobs/${id}`)
    if (reply.status === 200) continue
    expect(reply).toMatchObject(DAMAGED)
    return
  }
  throw new Error('no job lies on a damaged page')
}

describe('a data file that is damaged while the server runs', () => {
  test('makes health say so, and writes be refused with what to do', async () => {
    const { data, file, ids } = await withJobs()
    const server = await ServerProcess.start({ data })
    expect((await server.get('/health')).status).toBe(200)
    damage(file)
    await meetDamage(server, ids)

    const refused = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [] })
    expect(refused).toMatchObject(DAMAGED)
    expect(refused.headers['retry-after']).toBeUndefined()
    expect(refused.body.error.message).toContain('damaged')
    expect(refused.body.error.hint).toMatch(/curfew check.*backup/s)
    for (const [method, path, body] of [
      ['POST', '/ojs/v1/workers/fetch', { queues: ['default'] }],
      ['DELETE', `/ojs/v1/jobs/${ids.at(-1) ?? ''}`, undefined],
    ] as const)
      expect(await server.call(method, path, body)).toMatchObject(DAMAGED)

    expect(await server.get('/health')).toMatchObject({
      status: 503,
      body: {
        status: 'degraded',
        backend: { status: 'damaged', reason: 'the database file is damaged', file: 'curfew.db' },
      },
    })
    expect(await server.get('/ready')).toMatchObject({ status: 503 })

    const told = server.log.filter(({ level }) => Number(level) >= 50)
    expect(told).toHaveLength(1)
    expect(told[0]).toMatchObject({ file, reason: 'the database file is damaged' })
    expect(told[0]?.['advice']).toEqual([
      'Stop the server.',
      expect.stringContaining('-wal'),
      `Run: curfew check ${file}`,
      expect.stringMatching(/backup.*curfew export/s),
    ])
    await server.stop()
  })

  test('is found by the check command, while the server has it open', async () => {
    const { data, file } = await withJobs()
    const server = await ServerProcess.start({ data })
    const sound = await curfew(['check', file])
    expect(sound).toMatchObject({ code: 0, stdout: `${file} is sound.\n`, stderr: '' })
    await server.enqueue()
    damage(file)
    const ended = await curfew(['check', file])
    expect(ended).toMatchObject({ code: 1, stderr: '' })
    expect(ended.stdout).toMatch(new RegExp(`^${file} is damaged\\.\\n`))
    expect(ended.stdout).toMatch(/backup.*curfew export/s)
    expect(await curfew(['check', '--data', data])).toMatchObject({ code: 1 })
    await server.stop()
  })
})

describe('the check command', () => {
  test('says what it cannot read, and does not change it', async () => {
    const directory = temporaryDirectory()
    const notes = join(directory, 'notes.txt')
    writeFileSync(notes, 'These are my notes, not a database. '.repeat(200))
    expect(await curfew(['check', notes])).toMatchObject({ code: 1, stderr: expect.stringContaining('SQLite') })
    const missing = join(directory, 'missing.db')
    expect(await curfew(['check', missing])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('does not exist'),
    })
    const empty = join(directory, 'empty.db')
    writeFileSync(empty, '')
    expect(await curfew(['check', empty])).toMatchObject({ code: 1, stderr: expect.stringContaining('empty') })
  })
})

describe('a data file of zero bytes', () => {
  test('is refused at the start, because it looks like a database that was cut off', async () => {
    const { data, file } = await withJobs()
    truncateSync(file, 0)
    const ended = await curfew(['serve', '--port', '0', '--data', data])
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toMatch(/^curfew: cannot open [^\n]*empty[^\n]*backup[^\n]*remove[^\n]*\n$/)
    expect(ended.stderr).toContain(file)
  })
})
