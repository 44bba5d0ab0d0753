/**
 * When the disk is full, broken, or the database locked: calls are answered 503 and say when to come back, health tells,
 * the log tells once, nothing is half written, and all is well again without a restart when the cause goes away.
 */
import Database from 'better-sqlite3'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { curfew, ServerProcess, temporaryDirectory, until } from './server-process.ts'

const BIG = 'x'.repeat(50_000)

/** Enqueues large jobs until one is refused; answers the ids of those that were acknowledged. */
async function fill(server: ServerProcess): Promise<string[]> {
  const acknowledged: string[] = []
  for (let n = 0; n < 2_000; n += 1) {
    const reply = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [n, BIG] })
    if (reply.status === 201) acknowledged.push(reply.body.job.id as string)
    else {
      expectRefusal(reply)
      return acknowledged
    }
  }
  throw new Error('the disk took everything')
}

function expectRefusal(reply: Awaited<ReturnType<ServerProcess['call']>>): void {
  expect(reply).toMatchObject({ status: 503, body: { error: { code: 'unavailable', retryable: true } } })
  expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0)
}

async function expectDegraded(server: ServerProcess, reason: RegExp): Promise<void> {
  const health = await server.get('/health')
  expect(health).toMatchObject({ status: 503, body: { status: 'degraded', backend: { status: 'unhealthy' } } })
  expect(health.body.backend.reason).toMatch(reason)
  expect(await server.get('/ready')).toMatchObject({ status: 503, body: { status: 'not_ready' } })
  const told = server.log.filter(({ level }) => Number(level) >= 50)
  expect(told.length).toBeGreaterThan(0)
  expect(told[0]).toMatchObject({ reason: expect.stringMatching(reason), msg: expect.stringContaining('503') })
}

/** Serves again by itself; holds what it acknowledged, and nothing of what it refused. */
async function expectRecovery(
  server: ServerProcess,
  acknowledged: readonly string[],
  available = acknowledged.length,
): Promise<void> {
  await until('the server is healthy again', async () => (await server.get('/health')).status === 200)
  expect(await server.get('/ready')).toMatchObject({ status: 200 })
  expect(server.log.some(({ msg }) => String(msg).includes('serves again'))).toBe(true)
  const more = await server.enqueue({ args: ['after'] })
  const listed = await server.get('/ojs/v1/jobs?limit=1')
  expect(listed.body.pagination.total).toBe(acknowledged.length + 1)
  expect(listed.body.jobs[0].id).toBe(more.id)
  for (const id of acknowledged) expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(200)
  expect((await server.get('/ojs/v1/queues/default/stats')).body.stats.available).toBe(available + 1)
  const db = new Database(join(server.data, 'curfew.db'), { readonly: true })
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
  db.close()
}

const mounts: string[] = []

/** A file system of a certain size, or null where this user may not make one. */
function smallDisk(size: string): string | null {
  const directory = temporaryDirectory()
  if (!run('mount', '-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', directory)) return null
  mounts.push(directory)
  return directory
}

afterAll(() => {
  for (const mount of mounts) run('umount', '-l', mount)
})

function run(command: string, ...args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0
}

describe('a full disk', () => {
  test('a file system without room', async ({ skip }) => {
    const disk = smallDisk('4m')
    if (disk === null) return skip('mounting a file system needs root')
    const server = await ServerProcess.start({ data: disk })
    const acknowledged = await fill(server)
    await expectDegraded(server, /disk is full/)
    // What is stored can still be read.
    expect((await server.job(acknowledged[0] ?? '')).args[0]).toBe(0)
    expect(run('mount', '-o', 'remount,size=64m', disk)).toBe(true)
    await expectRecovery(server, acknowledged)
    await server.stop()
  })

  test('is survived by a kill, too', async ({ skip }) => {
    const disk = smallDisk('4m')
    if (disk === null) return skip('mounting a file system needs root')
    const server = await ServerProcess.start({ data: disk })
    const acknowledged = await fill(server)
    await server.kill()
    expect(run('mount', '-o', 'remount,size=64m', disk)).toBe(true)
    const again = await ServerProcess.start({ data: disk })
    for (const id of acknowledged) expect((await again.get(`/ojs/v1/jobs/${id}`)).status).toBe(200)
    expect((await again.get('/ojs/v1/jobs?limit=1')).body.pagination.total).toBe(acknowledged.length)
    await again.stop()
  })

  test('a file that may not grow', async ({ skip }) => {
    const server = await ServerProcess.start()
    const limit = (bytes: string): boolean => run('prlimit', '--pid', String(server.pid), `--fsize=${bytes}:`)
    if (!limit('2000000')) return skip('prlimit is not there')
    const acknowledged = await fill(server)
    await expectDegraded(server, /disk/)
    limit('unlimited')
    await expectRecovery(server, acknowledged)
    await server.stop()
  })
})

describe('a disk that must not be written', () => {
  test('files that became immutable', async ({ skip }) => {
    const server = await ServerProcess.start()
    const { id } = await server.enqueue()
    // Not the -shm: it is mapped into memory, and a write to it would end the process (SIGBUS), as with any program.
    const files = ['curfew.db', 'curfew.db-wal'].map((name) => join(server.data, name))
    if (!run('chattr', '+i', ...files)) return skip('this user, or this file system, cannot make files immutable')
    try {
      expectRefusal(await server.post('/ojs/v1/jobs', { type: 'test.job', args: ['refused'] }))
      await expectDegraded(server, /disk|read-only|cannot be opened/)
    } finally {
      run('chattr', '-i', ...files)
    }
    await expectRecovery(server, [id as string])
    await server.stop()
  })

  test('a read-only file system is refused at the start, in a sentence', async ({ skip }) => {
    const disk = smallDisk('16m')
    if (disk === null) return skip('mounting a file system needs root')
    await (await ServerProcess.start({ data: disk })).stop()
    expect(run('mount', '-o', 'remount,ro', disk)).toBe(true)
    const ended = await curfew(['serve', '--port', '0', '--data', disk])
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toMatch(/^curfew: [^\n]*(read-only|may not write)[^\n]*--data[^\n]*\n$/)
    expect(ended.stderr).toContain(`cannot open ${join(disk, 'curfew.db')}`)
  })

  test('a data directory that is a file is refused at the start, in a sentence', async () => {
    const file = join(temporaryDirectory(), 'file')
    writeFileSync(file, '')
    for (const data of [file, join(file, 'below')]) {
      const ended = await curfew(['serve', '--port', '0', '--data', data])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/^curfew: [^\n]*a file[^\n]*--data[^\n]*\n$/)
      expect(ended.stderr).toContain(data)
    }
  })

  test('a file that is not a database is refused at the start, in a sentence, and left alone', async () => {
    const data = temporaryDirectory()
    const file = join(data, 'curfew.db')
    const notes = 'These are my notes, not a database. '.repeat(200)
    writeFileSync(file, notes)
    const ended = await curfew(['serve', '--port', '0', '--data', data])
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toMatch(/^curfew: cannot open [^\n]*not an SQLite database[^\n]*--data[^\n]*\n$/)
    expect(ended.stderr).toContain(file)
    expect(readFileSync(file, 'utf8')).toBe(notes)
  })

  test('a directory where the data file should be is refused at the start, in a sentence', async () => {
    const data = temporaryDirectory()
    const file = join(data, 'curfew.db')
    mkdirSync(file)
    for (const command of [['serve', '--port', '0'], ['migrate'], ['export']]) {
      const ended = await curfew([...command, '--data', data])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/^curfew: cannot open [^\n]*a directory[^\n]*--data[^\n]*\n$/)
      expect(ended.stderr).toContain(file)
    }
  })

  test('a directory or a file that this user may not write is refused at the start, in a sentence', async ({
    skip,
  }) => {
    if (process.getuid?.() === 0) return skip('root may write everywhere')
    const data = temporaryDirectory()
    const file = join(data, 'curfew.db')
    const refused = async (): Promise<void> => {
      const ended = await curfew(['serve', '--port', '0', '--data', data])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/^curfew: cannot open [^\n]*(read-only|may not write)[^\n]*--data[^\n]*\n$/)
      expect(ended.stderr).toContain(file)
    }
    chmodSync(data, 0o500)
    await refused()
    chmodSync(data, 0o700)
    writeFileSync(file, '')
    chmodSync(file, 0o400)
    await refused()
  })
})

describe('a database locked by another process', () => {
  test('is answered with 503 until it is free, and no deadline is forgotten meanwhile', async () => {
    const server = await ServerProcess.start()
    const plain = await server.enqueue()
    const mortal = await server.enqueue({ options: { enqueue_ttl_ms: 600 } })
    const running = await server.enqueue({ queue: 'running', options: { timeout_ms: 600 } })
    await server.fetch({ queues: ['running'], worker_id: 'w' })
    const ids = [plain, mortal, running].map(({ id }) => id as string)

    const other = new Database(join(server.data, 'curfew.db'))
    other.exec('BEGIN IMMEDIATE')
    const calls: [string, string, unknown][] = [
      ['POST', '/ojs/v1/jobs', { type: 'test.job', args: ['refused'] }],
      ['POST', '/ojs/v1/jobs/batch', { jobs: [{ type: 'test.job', args: ['refused'] }] }],
      ['POST', '/ojs/v1/workers/fetch', { queues: ['default'] }],
      ['POST', '/ojs/v1/workers/ack', { job_id: running.id as string }],
      ['POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w', active_job_ids: [running.id] }],
      ['DELETE', `/ojs/v1/jobs/${String(plain.id)}`, undefined],
    ]
    for (const [method, path, body] of calls) expectRefusal(await server.call(method, path, body))
    await expectDegraded(server, /locked/)

    await until('both deadlines have passed', () => Date.now() > Date.parse(mortal.created_at as string) + 1_000)
    for (const id of [mortal.id, running.id]) {
      // It cannot be settled now; so it is not shown as if it were still alive.
      const reply = await server.get(`/ojs/v1/jobs/${String(id)}`)
      expectRefusal(reply)
    }
    other.exec('ROLLBACK')
    other.close()

    expect(await until('the lock is gone', async () => (await server.get('/health')).status === 200)).toBe(true)
    expect(await server.job(mortal.id as string)).toMatchObject({
      state: 'discarded',
      error: { type: 'enqueue_ttl_expired' },
    })
    expect(await server.job(running.id as string)).toMatchObject({ state: 'retryable', error: { type: 'timeout' } })
    await expectRecovery(server, ids, 1)
    await server.stop()
  })

  test('for a moment only, it is waited for', async () => {
    const server = await ServerProcess.start()
    const other = new Database(join(server.data, 'curfew.db'))
    other.exec('BEGIN IMMEDIATE')
    const enqueued = server.enqueue()
    setTimeout(() => other.exec('ROLLBACK'), 30)
    expect(await enqueued).toMatchObject({ state: 'available' })
    other.close()
    expect(server.log.filter(({ level }) => Number(level) >= 50)).toEqual([])
    await server.stop()
  })

  test('by a long read, it goes on', async () => {
    const server = await ServerProcess.start()
    await server.enqueue()
    const other = new Database(join(server.data, 'curfew.db'), { readonly: true })
    const rows = other.prepare('SELECT name FROM sqlite_schema').iterate()
    rows.next()
    for (let n = 0; n < 20; n += 1) await server.enqueue({ args: [BIG] })
    rows.return?.()
    other.close()
    expect((await server.get('/health')).status).toBe(200)
    await server.stop()
  })
})
