/**
 * From the file to PostgreSQL and back: the API gives the same answers in all three places, and the second export is
 * the first one, to the byte.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { House } from '../process/house.ts'
import { curfew, lines, runCurfew, ServerProcess, temporaryDirectory, until } from '../process/server-process.ts'

let cluster: Cluster
let database: string

beforeAll(async () => {
  cluster = await Cluster.start()
  database = cluster.url()
})

afterAll(() => cluster.remove())

const start = (): Promise<ServerProcess> => ServerProcess.start({ flags: ['--database', database] })

const recordsIn = (file: string): string[] => lines(readFileSync(file, 'utf8')).slice(1)

const exportedTo = (file: string): Promise<true> =>
  until('the signs of life are old', async () => (await curfew(['export', file, '--database', database])).code === 0)

const hasPart = async (): Promise<boolean> => {
  const { stderr } = await curfew(['export', '-', '--force', '--database', database])
  return stderr.includes('holds only a part')
}

test('a file that was cut leaves the database empty', async () => {
  const counts = { queues: 0, types: 0, workers: 0, notices: 0, jobs: 0, checkpoints: 0, tombstones: 0, events: 2_500 }
  const header = { curfew: 'export', format: 1, version: '0.1.0', exported_at: '2026-01-01T00:00:00Z', counts }
  const events = Array.from({ length: 2_500 }, (_, n) => ({
    event: { sequence: n + 100, type: 'queue.paused', at: n, subject: 'q', queue: 'q', jobType: null, data: '{}' },
  }))
  const text = [header, ...events].map((line) => `${JSON.stringify(line)}\n`).join('')
  const ended = await curfew(['import', '-', '--database', database], {}, text)
  expect(ended.code).toBe(1)
  expect(ended.stderr).toMatch(/line 2502: the end record is missing: the file is incomplete\. Nothing was imported: /)
  const { stdout } = await curfew(['export', '-', '--database', database])
  expect(JSON.parse(lines(stdout)[0] ?? '').counts).toEqual({ ...counts, events: 0, docs: 0, inbox: 0, refused: 0 })
})

test('everything moves from the file to the database and back', async () => {
  const house = new House(await ServerProcess.start())
  await house.furnish()
  const before = await house.answers(house.server)
  await house.server.stop()
  const directory = temporaryDirectory()
  const [first, second, third] = ['1', '2', '3'].map((name) => join(directory, name)) as [string, string, string]
  expect(await curfew(['export', first, '--data', house.server.data])).toMatchObject({ code: 0 })

  // An import that is killed leaves a part, which no server serves and the next import removes.
  const records = recordsIn(first)
  const many = Array.from(
    { length: 1_500 },
    (_, n) => `{"tombstone":{"id":"01a1e000-0000-7000-8000-${String(n).padStart(12, '0')}"}}`,
  )
  const killed = runCurfew(['import', '-', '--database', database])
  killed.write([lines(readFileSync(first, 'utf8'))[0], ...records.slice(0, -1), ...many].join('\n'))
  await until('a batch is written', hasPart)
  killed.signal('SIGKILL')
  await killed.exited
  expect((await curfew(['serve', '--port', '0', '--database', database])).stderr).toMatch(/Run the import again/)
  const imported = await curfew(['import', first, '--database', database])
  expect(imported.stderr).toMatch(/^Removing the part .*\nImported \d+ records, .*into postgresql:/)
  expect(imported.code).toBe(0)

  // The sign of life has moved too, so the database looks served until it is old.
  await exportedTo(second)
  expect(recordsIn(second)).toEqual(records)
  expect((await curfew(['import', first, '--database', database])).stderr).toMatch(/is not empty .*nothing was written/)

  const onDatabase = await start()
  const there = await house.answers(onDatabase)
  for (const [path, answer] of Object.entries(before)) expect([path, there[path]]).toEqual([path, answer])

  // While it runs, and for some seconds after, nothing is copied.
  for (const args of [
    ['export', third],
    ['import', first],
  ])
    expect((await curfew([...args, '--database', database])).stderr).toMatch(/A server was active on postgresql:/)
  expect(await curfew(['export', '-', '--force', '--database', database])).toMatchObject({ code: 0 })
  const late = (await onDatabase.enqueue({ queue: 'waiting' })).id as string
  await onDatabase.stop()
  await exportedTo(third)

  const back = temporaryDirectory()
  expect(await curfew(['import', third, '--data', back])).toMatchObject({ code: 0 })
  const again = await ServerProcess.start({ data: back })
  const handed = await again.fetch({ queues: ['waiting'], count: 9 })
  expect(handed.map(({ id }) => id as string)).toEqual([house.jobs['available'], house.jobs['behind'], late])
  const after = await again.get(`/ojs/v1/events?limit=1000&after=${house.cursor}`)
  expect(after.status).toBe(200)
  await again.stop()
})
