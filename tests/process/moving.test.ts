/**
 * Moving house: a server full of jobs in every state is stopped, exported, imported elsewhere and started there. A caller that
 * asks must not be able to tell, and no deadline may get lost on the way. And what cannot be moved is refused, with the
 * target left empty.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { House, RAW_ARGS } from './house.ts'
import { curfew, lines, pause, runCurfew, ServerProcess, temporaryDirectory, until } from './server-process.ts'

async function move(from: string, to: string, file = join(temporaryDirectory(), 'curfew.jsonl')): Promise<string> {
  expect(await curfew(['export', file, '--data', from])).toMatchObject({ code: 0, stdout: '' })
  expect(await curfew(['import', file, '--data', to])).toMatchObject({ code: 0, stdout: '' })
  return file
}

describe('a server that has moved', () => {
  test('answers as before, to the byte, and goes on from there', async () => {
    const house = new House(await ServerProcess.start())
    const old = house.server
    await house.furnish()
    const before = await house.answers(old)
    await old.stop()
    const to = temporaryDirectory()
    await move(old.data, to)

    const server = await ServerProcess.start({ data: to })
    const after = await house.answers(server)
    for (const [path, answer] of Object.entries(before)) expect([path, after[path]]).toEqual([path, answer])
    const { jobs } = house
    for (const [state, id] of Object.entries(jobs).filter(([name]) => name !== 'behind'))
      expect((await server.job(id)).state).toBe(state)
    expect((await server.get(`/ojs/v1/jobs/${jobs['available'] ?? ''}`)).text).toContain(`"args":${RAW_ARGS}`)

    // The holder goes on with its attempt and hears what it had not yet heard.
    const beat = await server.post('/ojs/v1/workers/heartbeat', {
      worker_id: 'mover',
      active_jobs: [jobs['active'], jobs['cancelled']],
    })
    expect(beat.text).toContain(jobs['cancelled'])
    const ack = await server.post('/ojs/v1/workers/ack', { job_id: jobs['active'], worker_id: 'mover', x_lease: 1 })
    expect(ack).toMatchObject({ status: 200, body: { state: 'completed' } })
    // New jobs stand behind the old ones, and new events after the old ones.
    const late = (await server.enqueue({ queue: 'waiting' })).id as string
    const handed = await server.fetch({ queues: ['waiting'], count: 9 })
    expect(handed.map(({ id }) => id as string)).toEqual([jobs['available'], jobs['behind'], late])
    const events = (await server.get('/ojs/v1/events?limit=1000')).body.events as { id: string }[]
    expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).sort())
    await server.stop()
  })

  test('keeps the deadlines it has promised, and counts the time of the move against no worker', async () => {
    const old = await ServerProcess.start()
    await old.register('patient')
    const armed = [
      await old.enqueue({ queue: 'attempt', timeout_ms: 6_000, grace_period_ms: 0, retry: { max_attempts: 1 } }),
      await old.enqueue({ queue: 'total', total_timeout_ms: 6_000 }),
      await old.enqueue({ queue: 'missed', total_timeout_ms: 1_000 }),
    ]
    const [attempt, total, missed] = armed.map(({ id }) => id as string)
    await old.fetch({ queues: ['attempt'] })
    const alive = (await old.enqueue({ queue: 'alive', heartbeat_timeout_ms: 1_500 })).id as string
    await old.fetch({ queues: ['alive'], worker_id: 'patient' })
    await old.stop()
    const to = temporaryDirectory()
    await move(old.data, to)
    await pause(1_000)

    const server = await ServerProcess.start({ data: to })
    // Overdue at the start: settled before the first answer, by the deadline it had.
    expect((await server.job(missed ?? '')).error).toMatchObject({ type: 'total_timeout', limit_seconds: 1 })
    // More than 1.5 s have passed since its last sign of life, but no server was there to hear it.
    expect((await server.job(alive)).state).toBe('active')
    for (const id of [attempt ?? '', total ?? '']) {
      await until('its deadline is kept', async () => (await server.job(id)).state === 'discarded')
      const job = await server.job(id)
      expect(job.error.limit_seconds).toBe(6)
      expect(job.error.overshoot_ms).toBeLessThan(plusLag(500))
      const began = Date.parse((job.started_at ?? job.created_at) as string)
      expect(Date.parse(job.error.deadline as string)).toBe(began + 6_000)
    }
    await server.stop()
  })
})

/** Whether the file has jobs and says of itself that it is only a part. */
function hasMark(file: string): boolean {
  if (!existsSync(`${file}-wal`)) return false
  const db = new Database(file, { readonly: true, timeout: 1_000 })
  try {
    return db.prepare("SELECT 1 FROM meta, jobs WHERE key = 'half_restored'").get() !== undefined
  } catch {
    return false // its tables are not made yet
  } finally {
    db.close()
  }
}

describe('export and import', () => {
  let data: string
  let file: string

  beforeAll(async () => {
    const server = await ServerProcess.start()
    for (let n = 0; n < 3; n += 1) await server.enqueue({ args: [n] })
    await server.stop()
    data = server.data
    file = join(temporaryDirectory(), 'curfew.jsonl')
    expect(await curfew(['export', file, '--data', data])).toMatchObject({ code: 0 })
  })

  /** Of the file: all lines but the first and the last. How many series it has depends on when it was written. */
  const records = (): number => lines(readFileSync(file, 'utf8')).length - 2

  const isEmpty = async (directory: string): Promise<void> => {
    const { stdout } = await curfew(['export', '-', '--data', directory])
    expect(JSON.parse(lines(stdout)[0] ?? '').counts).toMatchObject({ jobs: 0, queues: 0, events: 0 })
  }

  test('say what they did, and leave the output to the data', async () => {
    const exported = await curfew(['export', '--data', data])
    expect(exported.code).toBe(0)
    expect(exported.stderr).toMatch(
      new RegExp(`^Exported ${String(records())} records from \\S+curfew\\.db in \\d\\.\\d s\\.\\n$`),
    )
    const strip = (text: string): string => text.replace(/"exported_at":"[^"]*"/, '')
    expect(strip(exported.stdout)).toBe(strip(readFileSync(file, 'utf8')))
    expect(lines(exported.stdout).at(-1)).toBe(`{"end":true,"records":${String(records())}}`)
    const to = temporaryDirectory()
    const imported = await curfew(['import', '-', '--data', to], {}, exported.stdout)
    expect(imported).toMatchObject({ code: 0, stdout: '' })
    expect(imported.stderr).toMatch(
      /^Imported \d+ records, exported at \d{4}-\d\d-\d\dT[\d:.]+Z, into \S+curfew\.db in \d\.\d s\.\n$/,
    )
  })

  test('a file is for its owner only, and nothing else is left beside it', () => {
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(file, '..'))).toEqual(['curfew.jsonl'])
  })

  test('a file that is there is not written over', async () => {
    const ended = await curfew(['export', file, '--data', data])
    expect(ended).toMatchObject({
      code: 1,
      stderr: `curfew: ${file} already exists. Choose another name, or remove it.\n`,
    })
  })

  test('a directory without data is not made into one', async () => {
    const nowhere = join(temporaryDirectory(), 'nowhere')
    expect((await curfew(['export', '-', '--data', nowhere])).stderr).toMatch(/There is no data: \S+ does not exist/)
    expect(existsSync(nowhere)).toBe(false)
  })

  test('a running server is to be stopped first, on either side', async () => {
    const server = await ServerProcess.start()
    for (const args of [
      ['export', join(temporaryDirectory(), 'x')],
      ['import', file],
    ]) {
      const ended = await curfew([...args, '--data', server.data])
      expect(ended.code).toBe(1)
      expect(ended.stderr).toMatch(/in use by another Curfew server.*Stop it first/)
    }
    await server.stop()
  })

  test('an import into what is not empty is refused and changes nothing', async () => {
    const before = (await curfew(['export', '-', '--data', data])).stdout
    const ended = await curfew(['import', file, '--data', data])
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(
      /curfew\.db is not empty \(queues: 1, jobs: 3, docs: \d, events: 3\)\..*nothing was written/,
    )
    const counts = (text: string): unknown => JSON.parse(lines(text)[0] ?? '').counts
    expect(counts((await curfew(['export', '-', '--data', data])).stdout)).toEqual(counts(before))
  })

  const spoilt: readonly [string, (all: string[]) => string, RegExp][] = [
    [
      'cut at a line',
      (all) => all.slice(0, 5).join('\n') + '\n',
      /line 6: the end record is missing: the file is incomplete\./,
    ],
    ['cut within a line', (all) => all.join('\n').slice(0, -9), /line 1\d: not valid JSON\./],
    [
      'with a bad line',
      (all) => all.map((line, n) => (n === 3 ? '{"job":{}}' : line)).join('\n'),
      /line 4: job\.id must be/,
    ],
  ]
  test.each(spoilt)('a file %s is refused by its line, and the target is empty', async (_, spoil, message) => {
    const bad = join(temporaryDirectory(), 'bad.jsonl')
    writeFileSync(bad, spoil(lines(readFileSync(file, 'utf8'))))
    const to = temporaryDirectory()
    const ended = await curfew(['import', bad, '--data', to])
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toMatch(message)
    expect(ended.stderr).toMatch(/Nothing was imported: \S+ is empty\.\n$/)
    await isEmpty(to)
    expect(await curfew(['import', file, '--data', to])).toMatchObject({ code: 0 })
  })

  test('what was already written of a spoilt file is removed again', async () => {
    const all = lines(readFileSync(file, 'utf8'))
    const end = all.pop()
    const events = Array.from({ length: 2_500 }, (_, n) =>
      JSON.stringify({
        event: { sequence: n + 100, type: 'queue.paused', at: n, subject: 'q', queue: 'q', jobType: null, data: '{}' },
      }),
    )
    const bad = join(temporaryDirectory(), 'bad.jsonl')
    writeFileSync(bad, [...all, ...events, end].join('\n'))
    const to = temporaryDirectory()
    const ended = await curfew(['import', bad, '--data', to])
    expect(ended.stderr).toContain(
      `line ${String(2_502 + records())}: the end record counts ${String(records())} records, but the file has ${String(2_500 + records())}. Nothing was imported`,
    )
    await isEmpty(to)
  })

  test('an import that was killed is not served, and the next one begins anew', async () => {
    const all = lines(readFileSync(file, 'utf8'))
    const to = temporaryDirectory()
    // Standard input that never ends: it waits for more, with its first batch written.
    const many = Array.from(
      { length: 1_500 },
      (_, n) => `{"tombstone":{"id":"01a1e000-0000-7000-8000-${String(n).padStart(12, '0')}"}}`,
    )
    const importing = runCurfew(['import', '-', '--data', to])
    importing.write([...all.slice(0, -1), ...many].join('\n'))
    await until('a batch is written', () => hasMark(join(to, 'curfew.db')))
    importing.signal('SIGKILL')
    await importing.exited
    for (const args of [
      ['serve', '--port', '0'],
      ['export', '-'],
    ]) {
      const ended = await curfew([...args, '--data', to])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/holds only a part of its data: an import into it did not come to its end/)
    }
    const again = await curfew(['import', file, '--data', to])
    expect(again.code).toBe(0)
    expect(again.stderr).toMatch(/^Removing the part that an unfinished import has left/)
    const server = await ServerProcess.start({ data: to })
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toHaveLength(3)
    await server.stop()
  })

  test('an import that is interrupted leaves nothing, and says so', async () => {
    const all = lines(readFileSync(file, 'utf8'))
    const to = temporaryDirectory()
    const importing = runCurfew(['import', '-', '--data', to])
    importing.write(all.slice(0, -1).join('\n'))
    await until('the target is open', () => existsSync(join(to, 'curfew.db-wal')))
    importing.signal('SIGINT')
    expect(await importing.exited).toMatchObject({ code: 130 })
    expect(importing.output.stderr).toMatch(/^curfew: Stopped\. Nothing was imported: \S+ is empty\.\n$/)
    await isEmpty(to)
  })
})

describe('migrate', () => {
  test('says which schema the file has', async () => {
    const server = await ServerProcess.start()
    expect((await curfew(['migrate', '--data', server.data])).stderr).toMatch(/in use by another Curfew server/)
    await server.stop()
    const { code, stdout } = await curfew(['migrate', '--data', server.data])
    expect(code).toBe(0)
    expect(stdout).toMatch(/curfew\.db has schema \d+, which is the newest\. .*when it opens it/)
    expect((await curfew(['migrate', '--data', join(server.data, 'no')])).stdout).toMatch(/does not exist yet/)
  })
})
