/** `curfew top`, `doctor` and `backup`, without a process of their own. */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openServer } from 'curfew'
import { Remote } from '../packages/server/src/cli/frame/remote.ts'
import { checkServer, checkSettings, shortOfSpace } from '../packages/server/src/cli/doctor.ts'
import { loadTop } from '../packages/server/src/cli/top.ts'
import { topLines, topRows } from '../packages/server/src/cli/top-view.ts'
import { loadSettings } from '../packages/server/src/settings.ts'
import { curfew, reach } from './command-stage.ts'
import { TestServer } from './harness.ts'

const NO_FLAGS = { names: [], text: () => undefined, texts: () => [], has: () => false }
const remote = (): Remote => new Remote(NO_FLAGS, { env: {}, width: 80, colour: false, write: () => {} })

let server: TestServer
let folder: string
beforeEach(async () => {
  server = await TestServer.open()
  reach(server)
  folder = mkdtempSync(join(tmpdir(), 'curfew-command-'))
})
afterEach(async () => {
  vi.unstubAllGlobals()
  await server.close()
  rmSync(folder, { recursive: true })
})

describe('top', () => {
  /** One that is asked to stop in a second, one that is too old in ten. */
  async function busy(): Promise<void> {
    await server.register('w1')
    await server.start({ type: 'report.build', timeout: 3, grace_period: 1 }, { worker_id: 'w1' })
    await server.enqueue({ type: 'coupon.apply', queue: 'other', enqueue_ttl: 12 })
    await server.advance(2_000)
  }

  test('sorts jobs by what happens next, and says by which limit and who set it', async () => {
    await busy()
    const { code, out } = await curfew('top --once')
    expect(code).toBe(0)
    const [, verdict, head, first, second] = out.split('\n')
    expect(verdict).toBe('● 1 will be late, first in 10 s')
    expect(head).toMatch(/^NEXT +JOB +TYPE +WHAT HAPPENS +LIMIT +BUDGET$/)
    expect(first).toMatch(/^1 s +\S+ +report\.build +asked to stop +timeout 3 s ● +█████░░░$/)
    expect(second).toMatch(/^10 s +\S+ +coupon\.apply +too old to start +enqueue_ttl 12 s ● +█░░░░░░░$/)
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  })

  test('a filter leaves what it names, and the screen has as many lines as the terminal', async () => {
    await busy()
    const model = await loadTop(remote())
    const now = server.clock.now()
    expect(topRows(model, now, 'coupon').map(({ job }) => job.job.type)).toEqual(['coupon.apply'])
    for (const rows of [6, 10, 24]) {
      const state = { now, selected: 0, filter: '', prompt: null, rows }
      expect(topLines(model, state, { width: 80, colour: false })).toHaveLength(rows - 1)
    }
  })

  test('needs a terminal', async () => {
    await expect(curfew('top')).rejects.toThrow('curfew top needs a terminal. Print it once with --once.')
  })
})

describe('doctor', () => {
  test('finds nothing where all is well', async () => {
    await server.register('w1')
    await server.enqueue()
    expect(await checkServer(remote(), () => server.clock.now())).toMatchObject({
      findings: [{ what: expect.stringContaining('0.0.0-test') }],
    })
    expect(checkSettings(loadSettings([], {}))).toEqual({ findings: [], fine: ['settings'] })
  })

  test('finds paused queues with work, queues without workers, silent workers, attempts that cannot fit', async () => {
    await server.register('w1', { queues: ['mail'] })
    await server.enqueue({ queue: 'held' })
    await server.enqueue({ queue: 'alone' })
    await server.post('/ojs/v1/queues/held/pause')
    await server.call('PUT', '/api/v1/job-types/report.build', { timeout: 60, total_timeout: 100 })
    await server.advance(25_000)
    const { findings } = await checkServer(remote(), () => server.clock.now())
    const all = findings.map(({ what, fix }) => `${what} / ${fix}`).join('\n')
    expect(all).toContain('queue held is paused with 1 job waiting / curfew queues resume held')
    expect(all).toContain('no worker serves queue alone')
    expect(all).toContain('worker w1 was last heard 25 s ago')
    expect(all).toMatch(/type report\.build: \d of 3 attempts cannot fit.*curfew types set report\.build/)
  })

  test('finds clocks that differ', async () => {
    const { findings } = await checkServer(remote(), () => server.clock.now() - 5_000)
    expect(findings.map(({ what }) => what)).toContain('the clocks differ by 5 s')
  })

  test.each([
    [['--workers-heartbeat-timeout', '6s'], /heartbeat-timeout 6s is shorter than 3 beats of 5s/],
    [['--limits-caps-timeout', '10m'], /timeout 30m is longer than its cap 10m/],
    [['--limits-defaults-total-timeout', '10m'], /no attempt gets its whole time/],
    [['--limits-defaults-total-timeout', '1h', '--limits-defaults-enqueue-ttl', '2h'], /never ends a job/],
  ])('finds settings that cannot work: %j', (args, said) => {
    expect(checkSettings(loadSettings(args, {})).findings.map(({ what }) => what)).toEqual([
      expect.stringMatching(said),
    ])
  })

  test('finds a disk that is nearly full', () => {
    expect(shortOfSpace(500 * 1024 ** 2, 1024 ** 4, 'f')?.what).toBe('only 0.5 GiB are free where f lies')
    expect(shortOfSpace(100 * 1024 ** 3, 1024 ** 4, 'f')).toBeNull()
  })

  test('exits with 6 on findings: a damaged file, with its remedy', async () => {
    writeFileSync(join(folder, 'curfew.db'), 'SQLite format 3\u0000'.padEnd(8_192, 'x'), { mode: 0o600 })
    const { code, out } = await curfew(['doctor', '--data', folder])
    expect(code).toBe(6)
    expect(out).toMatch(/curfew\.db/)
  })
})

describe('backup', () => {
  test('copies the data of a server that runs; a server on the copy has it, and nothing later', async () => {
    const data = join(folder, 'data')
    const served = await openServer({ data })
    const call = (method: string, url: string, body?: unknown) =>
      served.handler({
        method,
        url,
        headers: { 'content-type': 'application/json' },
        body: body === undefined ? '' : JSON.stringify(body),
        signal: new AbortController().signal,
      })
    const ids: string[] = []
    for (let n = 0; n < 3; n += 1) {
      const { body } = await call('POST', '/ojs/v1/jobs', { type: 'a', args: [n] })
      ids.push((JSON.parse(body as string) as { job: { id: string } }).job.id)
      if (n === 1) {
        const copied = await curfew(['backup', join(folder, 'copy.db'), '--data', data])
        expect(copied.notes).toMatch(/copy\.db: [\d ]+ bytes, read through and sound\.\n$/)
      }
    }
    await served.close()
    expect(statSync(join(folder, 'copy.db')).mode & 0o077).toBe(0)
    await expect(curfew(['backup', join(folder, 'copy.db'), '--data', data])).rejects.toThrow('already exists')
    const restored = join(folder, 'restored')
    mkdirSync(restored)
    copyFileSync(join(folder, 'copy.db'), join(restored, 'curfew.db'))
    const again = await openServer({ data: restored })
    const { body } = await again.handler({
      method: 'GET',
      url: '/ojs/v1/jobs',
      headers: {},
      body: '',
      signal: new AbortController().signal,
    })
    await again.close()
    const found = (JSON.parse(body as string) as { jobs: { id: string }[] }).jobs.map(({ id }) => id)
    expect(found.sort()).toEqual(ids.slice(0, 2).sort())
  })

  test('an export of a file that a server uses is made from a copy, which is removed', async () => {
    const data = join(folder, 'data')
    const served = await openServer({ data })
    try {
      const file = join(folder, 'out.jsonl')
      await expect(curfew(['export', file, '--data', data])).rejects.toThrow('in use by another Curfew server')
      expect((await curfew(['export', file, '--live', '--data', data])).code).toBe(0)
      expect(statSync(file).size).toBeGreaterThan(100)
      expect(readdirSync(data).filter((name) => name.startsWith('.export-'))).toEqual([])
    } finally {
      await served.close()
    }
  })

  test('is refused where there is no file', async () => {
    await expect(curfew(['backup', join(folder, 'x'), '--data', ':memory:'])).rejects.toThrow('Data in memory')
    await expect(curfew(['backup', join(folder, 'x'), '--database', 'postgres://h/d'])).rejects.toThrow('pg_dump')
    await expect(curfew(['backup', join(folder, 'x'), '--data', join(folder, 'none')])).rejects.toThrow(
      'There is no data',
    )
  })
})
