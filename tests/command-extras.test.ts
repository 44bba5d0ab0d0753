/** `curfew top`, `doctor` and `backup`, without a process of their own. */
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openServer } from 'curfew'
import { Remote } from '../packages/server/src/cli/frame/remote.ts'
import { checkData, checkServer, checkSettings, shortOfSpace } from '../packages/server/src/cli/doctor.ts'
import { backupFile } from '../packages/server/src/cli/backup.ts'
import { loadTop } from '../packages/server/src/cli/top.ts'
import { TopScreen } from '../packages/server/src/cli/top-screen.ts'
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

  /** The screen as a terminal of 80 columns has it, without colour, and what the keys do. */
  async function screen(pause: (queue: string) => Promise<{ status: number }> = pauseQueue) {
    await busy()
    let passedMs = 0
    const top = new TopScreen(
      { colour: false, isUtc: true, monotonicMs: () => passedMs, pause },
      await loadTop(remote()),
    )
    return {
      top,
      pass: (ms: number) => void (passedMs += ms),
      lines: (rows = 10): string[] =>
        top
          .draw(80, rows)
          // eslint-disable-next-line no-control-regex
          .replaceAll(/\u001b\[[A-Z]/g, '')
          .split('\n'),
      /** Characters, and names of keys such as return. */
      type: async (...keys: string[]): Promise<number | null> => {
        let code: number | null = null
        for (const key of keys) code = await top.press(key.length === 1 ? { name: key, sequence: key } : { name: key })
        return code
      },
    }
  }
  const pauseQueue = (queue: string) => remote().ask('POST', `/ojs/v1/queues/${queue}/pause`)
  const last = (lines: readonly string[]): string => lines.at(-1) ?? ''

  test('q quits with 0, Ctrl-C with 130, and other keys go on', async () => {
    const { top, type } = await screen()
    expect(await type('x', 'j', 'k')).toBeNull()
    expect(await type('q')).toBe(0)
    expect(await top.press({ name: 'c', sequence: '\u0003', ctrl: true })).toBe(130)
  })

  test('/ filters what is listed: enter takes the text, backspace removes, escape clears', async () => {
    const { lines, type } = await screen()
    await type('/', ...'couponx')
    expect(last(lines())).toMatch(/^filter: couponx_/)
    await type('backspace', 'return')
    expect(lines().filter((line) => /report\.|coupon\./.test(line))).toEqual([expect.stringContaining('coupon.apply')])
    expect(last(lines())).toContain('/ filter (coupon)')
    await type('/', 'escape')
    expect(lines().filter((line) => /report\.|coupon\./.test(line))).toHaveLength(2)
    // Keys that mean something else are text while a filter is typed.
    expect(await type('/', 'q', 'p')).toBeNull()
    expect(last(lines())).toMatch(/^filter: qp_/)
  })

  test('p asks first, pauses the queue of the selected job only for y, and says what came of it', async () => {
    const { lines, type } = await screen()
    await type('j', 'p')
    expect(last(lines())).toBe('Pause queue other? y/n')
    await type('n')
    const paused = async (): Promise<unknown> => (await server.get('/ojs/v1/queues')).body
    expect(JSON.stringify(await paused())).not.toContain('"paused":true')
    await type('p', 'y')
    expect(last(lines())).toBe('other is paused; curfew queues resume other ends that')
    expect(await paused()).toMatchObject({
      queues: expect.arrayContaining([
        expect.objectContaining({ name: 'other', paused: true }),
        expect.objectContaining({ name: 'default', paused: false }),
      ]),
    })
  })

  test('a pause that the server refuses is said to be refused', async () => {
    const { lines, type } = await screen(() => Promise.resolve({ status: 403 }))
    await type('p', 'y')
    expect(last(lines())).toBe('default is not paused: the server answered 403')
  })

  test('the selection stays on its job while the list moves', async () => {
    const { top, lines, type } = await screen()
    await type('down')
    expect(lines()[4]).toMatch(/^>10 s .* coupon\.apply/)
    await server.enqueue({ type: 'first.of.all', queue: 'other', enqueue_ttl: 1 })
    top.take(await loadTop(remote()))
    expect(lines()[5]).toMatch(/^>10 s .* coupon\.apply/)
    await server.advance(20_000)
    top.take(await loadTop(remote()))
    expect(lines().join('\n')).not.toContain('coupon')
  })

  test('enter draws one job and follows it to its end; the next key goes back', async () => {
    const { top, lines, type, pass } = await screen()
    await type('return')
    expect(lines(30)[0]).toMatch(/^report\.build .* active, attempt 1 of 3, worker w1$/)
    expect(lines(30)[1]).toMatch(/asked to stop in 1 s/)
    pass(400)
    expect(lines(30)[1]).toMatch(/asked to stop in 600 ms/)
    await server.advance(3_000)
    top.take(await loadTop(remote(), top.explained))
    expect(lines(30)[0]).toMatch(/^report\.build .* available, attempt 1 of 3$/)
    expect(await type('q')).toBeNull()
    expect(lines()[2]).toMatch(/^NEXT/)
  })

  test('time goes on between two answers, and an answer that did not come is said until one comes', async () => {
    const { top, lines, pass } = await screen()
    pass(300)
    expect(lines()[3]).toMatch(/^>700 ms /)
    top.fail('No server answers')
    expect(last(lines())).toBe('No server answers')
    top.take(await loadTop(remote()))
    expect(lines()[3]).toMatch(/^>1 s /)
    expect(last(lines())).toMatch(/^enter explain/)
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

  test('finds a folder that cannot be made, and one that lies in a file', async () => {
    writeFileSync(join(folder, 'file'), '')
    const { code, out } = await curfew(['doctor', '--data', join(folder, 'file', 'data')])
    expect(code).toBe(6)
    expect(out).toContain('file is not a folder, so no data can be kept in')
    // A file system that takes nothing, not even from root.
    expect(checkData(loadSettings(['--data', '/proc/curfew'], {})).findings).toHaveLength(1)
  })

  test('says that a folder that is still to be made is fine, and nothing of the default folder', () => {
    expect(checkData(loadSettings(['--data', join(folder, 'new', 'data')], {}))).toEqual({
      findings: [],
      fine: ['data folder', 'disk'],
    })
    expect(checkData(loadSettings([], {}))).toEqual({ findings: [], fine: [] })
  })

  test('says what is well beside what is not', async () => {
    await server.enqueue({ queue: 'held' })
    await server.post('/ojs/v1/queues/held/pause')
    const { findings, fine } = await checkServer(remote(), () => server.clock.now())
    expect(findings.map(({ what }) => what)).toContain('queue held is paused with 1 job waiting')
    expect(fine).toEqual(['clock'])
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
        expect(copied.notes).toMatch(/copy\.db: [\d ]+ bytes, verified and on disk\.\n$/)
      }
    }
    await served.close()
    expect(statSync(join(folder, 'copy.db')).mode & 0o077).toBe(0)
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

  /** A data file with the tables of a server that has ended. */
  async function dataFile(): Promise<string> {
    const data = join(folder, 'data')
    await (await openServer({ data })).close()
    return data
  }

  test('a file that is there is replaced only if a person or --yes says so', async () => {
    const data = await dataFile()
    const copy = join(folder, 'copy.db')
    writeFileSync(copy, 'kept')
    const backup = ['backup', copy, '--data', data]
    await expect(curfew(backup)).rejects.toThrow(`Replace ${copy}? Nothing was done. Repeat the command with --yes.`)
    expect(await curfew(backup, { answer: 'n' })).toMatchObject({ code: 1 })
    expect(readFileSync(copy, 'utf8')).toBe('kept')
    expect(await curfew([...backup, '-y'])).toMatchObject({ code: 0 })
    expect(readFileSync(copy, 'latin1')).toMatch(/^SQLite format 3/)
    expect(statSync(copy).mode & 0o077).toBe(0)
    expect(readdirSync(folder).sort()).toEqual(['copy.db', 'data'])
  })

  test('the data itself and folders are never replaced, whatever is said', async () => {
    const data = await dataFile()
    const link = join(folder, 'link')
    symlinkSync(data, link)
    for (const name of [join(data, 'curfew.db'), join(link, 'curfew.db'), join(link, 'curfew.db-wal')])
      await expect(curfew(['backup', name, '--data', data, '--yes'])).rejects.toThrow('belongs to the data itself')
    await expect(curfew(['backup', data, '--data', data, '--yes'])).rejects.toThrow('is a directory')
  })

  test('the copy is on disk before it has its name, and the name before the backup is reported', async () => {
    const data = await dataFile()
    const copy = join(folder, 'copy.db')
    const done: string[] = []
    const disk = {
      sync: (path: string) => void done.push(`sync ${path}`),
      rename: (from: string, to: string) => {
        done.push(`rename ${from}`)
        renameSync(from, to)
      },
    }
    backupFile(loadSettings(['--data', data], {}).values, copy, { disk })
    expect(done).toEqual([`sync ${copy}.part`, `rename ${copy}.part`, `sync ${folder}`])
  })

  test('a copy that cannot be brought to disk leaves no file, and what was there stays', async () => {
    const data = await dataFile()
    const copy = join(folder, 'copy.db')
    writeFileSync(copy, 'kept')
    const disk = {
      sync: () => {
        throw new Error('no space left')
      },
      rename: renameSync,
    }
    const { values } = loadSettings(['--data', data], {})
    expect(() => backupFile(values, copy, { mayReplace: true, disk })).toThrow('no space left')
    expect(readFileSync(copy, 'utf8')).toBe('kept')
    expect(readdirSync(folder).sort()).toEqual(['copy.db', 'data'])
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
