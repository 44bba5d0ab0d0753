/** Export and import without processes: what is copied is copied to the byte, and what is wrong is refused by its line. */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { instant, minutes, type Instant, type Job } from '@curfew/core'
import { anyJob, anyWorker } from '../store/any-record.suite.ts'
import { aCheckpoint, admitted, aNotice, aQueue, at, aTypePolicy } from '../store/builders.suite.ts'
import { openSqliteStore } from '../store/sqlite/store.ts'
import { NOTHING, type Batch, type Store, type StoredEvent } from '../store/store.ts'
import { exportLines, refuseServed } from './export.ts'
import { fill, headerOf } from './import.ts'
import { linesOf } from './lines.ts'
import { grouped, Progress } from './frame/progress.ts'

const SLOW = { timeout: 60_000 }
const VERSION = '1.2.3'

const openStore = (): Promise<Store> =>
  openSqliteStore({ file: ':memory:', durability: 'normal', events: { maxAgeMs: minutes(60), maxCount: 1_000 } })

let source: Store
let target: Store

beforeEach(async () => {
  source = await openStore()
  target = await openStore()
})
afterEach(async () => {
  await source.close()
  await target.close()
})

async function exported(store: Store): Promise<string> {
  let text = ''
  for await (const lines of exportLines(store, await store.sizes(), VERSION, instant(0))) text += lines.join('')
  return text
}

/** Reads it in pieces of this many bytes. */
async function imported(text: string | Uint8Array, store: Store, size = 65_536): Promise<number> {
  const bytes = Buffer.from(text)
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size)
  }
  const lines = linesOf(pieces())
  await headerOf(lines)
  return fill(store, lines, new AbortController().signal, { advance: () => {} })
}

const job = (given: Partial<Job> = {}): Job => ({ ...admitted().job, seq: 1, version: 1, ...given })
const event = (sequence: number): StoredEvent => ({
  sequence,
  type: 'queue.paused',
  at: at(sequence),
  subject: 'default\ud800\u0000',
  queue: 'default',
  jobType: null,
  data: '{ "n": 1.0 }',
})

describe('a copy', () => {
  test('of any job is that job, to the byte', SLOW, async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(anyJob(), { selector: ({ id }) => id, maxLength: 5 }), async (jobs) => {
        await source.reset()
        await target.reset()
        await source.restore({ ...NOTHING, jobs }, false)
        const text = await exported(source)
        expect(await imported(text, target)).toBe(jobs.length + 1)
        expect(await exported(target)).toBe(text)
        for (const any of jobs) expect(await target.job(any.id)).toEqual(any)
      }),
    )
  })

  test('of any worker is that worker', SLOW, async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(anyWorker(), { selector: ({ id }) => id, maxLength: 5 }), async (workers) => {
        await source.reset()
        await target.reset()
        await source.restore({ ...NOTHING, workers }, false)
        const text = await exported(source)
        await imported(text, target)
        expect(await target.workers()).toEqual(await source.workers())
        expect(await exported(target)).toBe(text)
      }),
    )
  })

  test('has everything, however the file is cut into pieces', async () => {
    const { id } = job()
    const all: Batch = {
      queues: [aQueue({ version: 3, pausedAt: at(4), config: { default_timeout: 5 } })],
      types: [aTypePolicy({ asked: { timeout: minutes(1), onTimeout: 'discard' }, sent: { timeout: 60 } })],
      workers: [],
      notices: [
        { workerId: 'w\ud800', notice: aNotice({ jobId: id }) },
        { workerId: 'a', notice: aNotice({ jobId: id, reason: 'lost' }) },
      ],
      // A line separator and a carriage return are no ends of a line here.
      jobs: [
        job({ id, body: '"args":["\u2028\u2029 \u{1f600} \\ud800 \\u0000"]', cancelReason: '\r\u2028\ud800\u0000' }),
      ],
      checkpoints: [aCheckpoint(id, { state: '[1.0,\n2]', metadata: '{}' })],
      docs: [
        { kind: 'cron', id: 'nightly', version: 3, wakeAt: at(5), body: '{"a":"\\u2028"}' },
        { kind: 'step', id: 'a/b', version: 1, wakeAt: null, body: '[]' },
      ],
      tombstones: [job().id, job().id],
      events: [event(5), event(6), event(9)],
      inbox: [],
      refused: [],
      life: { aliveAt: at(9), outages: [{ from: at(1), to: at(2) }] },
    }
    await source.restore(all, false)
    const text = await exported(source)
    expect(text.split('\n')[0]).toBe(
      `{"curfew":"export","format":2,"version":"1.2.3","exported_at":"1970-01-01T00:00:00.000Z","counts":${JSON.stringify(await source.sizes())}}`,
    )
    expect(text.split('\n').at(-2)).toBe('{"end":true,"records":14}')
    for (const size of [1, 7, 65_536]) {
      await target.reset()
      await imported(text, target, size)
      expect(await exported(target)).toBe(text)
    }
    expect(await target.job(id)).toEqual(all.jobs[0])
    expect(await target.life()).toEqual(all.life)
    expect(await target.isHalfRestored()).toBe(false)
  })

  test('reads an export of a version that knew of no inbox', async () => {
    await source.restore({ ...NOTHING, jobs: [job()] }, false)
    const text = (await exported(source)).replace(',"inbox":0,"refused":0', '')
    expect(await imported(text, target)).toBe(2)
  })

  test('comes in many batches when there is much, and in order', async () => {
    const many = Array.from({ length: 2_500 }, (_, n) => job({ id: admitted({}, n).job.id, seq: n + 1 }))
    await source.restore({ ...NOTHING, jobs: many, events: many.map((_, n) => event(n + 1)) }, false)
    const text = await exported(source)
    const batches: number[] = []
    const watched: Pick<Store, 'restore'> = {
      restore: (batch, more) => {
        batches.push(batch.jobs.length + batch.events.length)
        return target.restore(batch, more)
      },
    }
    expect(await imported(text, watched as Store)).toBe(5_001)
    expect(batches).toEqual([1_000, 1_000, 1_000, 1_000, 1_000, 0])
    expect(await exported(target)).toBe(text)
    expect((await target.counts()).get('default')?.available).toBe(2_500)
  })
})

describe('a file that is not right is refused by its line:', () => {
  let lines: string[]

  beforeEach(async () => {
    await source.restore(
      { ...NOTHING, jobs: [job()], tombstones: [job().id], events: [event(1), event(2)], life: null },
      false,
    )
    lines = (await exported(source)).split('\n').slice(0, -1)
  })

  /** With line n (from 1) replaced. */
  const changed = (n: number, change: (line: string) => string): string =>
    lines.map((line, index) => (index === n - 1 ? change(line) : line) + '\n').join('')

  const cases: readonly [string, () => string | Uint8Array, string][] = [
    ['nothing', () => '', 'line 1: the file is empty'],
    ['something else', () => 'hello\n', 'line 1: not valid JSON'],
    ['JSON of something else', () => '{"a":1}\n', 'line 1: not an export of Curfew'],
    [
      'a newer format',
      () => changed(1, (line) => line.replace('"format":2', '"format":3')),
      'line 1: it is written in format 3 by Curfew "1.2.3"; this program reads formats up to 2',
    ],
    [
      'a header without its counts',
      () => changed(1, (line) => line.replace(/,"counts".*/, '}')),
      'line 1: counts must be an object',
    ],
    ['a line that is not JSON', () => changed(3, (line) => line.slice(0, -9)), 'line 3: not valid JSON'],
    ['an empty line', () => changed(3, () => ''), 'line 3: not valid JSON'],
    [
      'a line that is not UTF-8',
      () =>
        Buffer.from(
          changed(3, (line) => line.replace('tombstone', 'tomb\xffstone')),
          'latin1',
        ),
      'line 3: not valid UTF-8',
    ],
    ['a line that is not a record', () => changed(3, () => '[]'), 'line 3: a record must be a JSON object'],
    [
      'two records in a line',
      () => changed(3, () => '{"job":{},"event":{}}'),
      'line 3: a record must have exactly one key',
    ],
    ['a kind it does not know', () => changed(3, () => '{"cron":{}}'), 'line 3: unknown kind of record "cron"'],
    ['a kind with an inherited name', () => changed(3, () => '{"toString":{}}'), 'unknown kind of record "toString"'],
    [
      'a missing field',
      () => changed(2, (line) => line.replace('"seq":1,', '')),
      'line 2: job.seq must be a whole number',
    ],
    [
      'an unknown field',
      () => changed(2, (line) => line.replace('"seq":1,', '"seq":1,"colour":1,')),
      'line 2: job has an unknown field "colour"',
    ],
    [
      'a wrong value deep inside',
      () => changed(2, (line) => line.replace('"source":"default"', '"source":"chance"')),
      '.source must be one of publish, handler',
    ],
    [
      'what a client sent, spoilt',
      () => changed(2, (line) => line.replace('"body":"', '"body":"}')),
      'line 2: job.body must be the inside of a JSON object, as text',
    ],
    [
      'events out of order',
      () => changed(5, (line) => line.replace('"sequence":2', '"sequence":1')),
      'line 5: event 1 is out of order',
    ],
    ['the same job twice', () => changed(3, () => lines[1] ?? ''), 'lines 2 to 7: '],
    ['a file that was cut at a line', () => lines.slice(0, 4).join('\n') + '\n', 'line 5: the end record is missing'],
    ['a file that was cut within a line', () => lines.join('\n').slice(0, -4), 'line 7: not valid JSON'],
    [
      'a missing record',
      () => lines.filter((_, index) => index !== 2).join('\n'),
      'line 6: the end record counts 5 records, but the file has 4',
    ],
    ['something after the end', () => [...lines, lines[1]].join('\n'), 'line 8: there is a line after the end record'],
  ]

  test.each(cases)('%s', async (_, text, message) => {
    await expect(imported(text(), target)).rejects.toThrow(message)
    expect(Object.values(await target.sizes())).toEqual(Array(11).fill(0))
  })
})

describe('a store that servers share', () => {
  /** All that is asked of it. */
  const shared = (aliveAt: Instant | null, now: Instant): Store =>
    ({ clock: { now: () => now }, life: async () => ({ aliveAt, outages: [] }) }) as unknown as Store

  test('is not touched while a server gives signs of life, by the clock of the database', async () => {
    await expect(refuseServed(shared(at(0), at(4_999)), 'the database')).rejects.toThrow(
      'A server was active on the database 5.0 s ago. Stop every server first, and try again after 5 s',
    )
    await expect(refuseServed(shared(at(9), at(0)), 'the database')).rejects.toThrow('0.0 s ago')
  })

  test('is free when the last sign is old, or there never was one; a file is free when it could be opened', async () => {
    await refuseServed(shared(at(0), at(5_000)), 'the database')
    await refuseServed(shared(null, at(0)), 'the database')
    await source.restore({ ...NOTHING, life: { aliveAt: instant(Number.MAX_SAFE_INTEGER), outages: [] } }, false)
    await refuseServed(source, 'the file')
  })
})

describe('progress', () => {
  const shown = (screen: { isTTY?: boolean; columns?: number }, stepMs: number): string[] => {
    const written: string[] = []
    let now = 0
    const progress = new Progress('exported', 4_000, { ...screen, write: (text) => written.push(text) }, () => now)
    for (let n = 0; n < 4; n++) {
      now += stepMs
      progress.advance(1_000)
    }
    progress.clear()
    return written
  }

  test('is a line every few seconds where the output is not a terminal', () => {
    expect(shown({}, 2_500)).toEqual([
      'exported 2 000 of 4 000 records, 50 %, 5.0 s\n',
      'exported 4 000 of 4 000 records, 100 %, 10.0 s\n',
    ])
  })

  test('is a bar in a terminal, and is gone in the end', () => {
    const bar = '\r[##########..............................] exported 1 000 of 4 000 records, 25 %, 0.2 s\u001b[K'
    const written = shown({ isTTY: true, columns: 100 }, 200)
    expect([written[0], written.length, written.at(-1)]).toEqual([bar, 5, '\r\u001b[K'])
    expect(shown({ isTTY: true, columns: 30 }, 200)[0]).toBe('\rexported 1 000 of 4 000 recor\u001b[K')
  })

  test('groups digits', () => {
    expect([0, 999, 1_000, 1_234_567].map(grouped)).toEqual(['0', '999', '1 000', '1 234 567'])
  })
})
