/** Hostile expressions in a real process: it lives, its timers fire, and it does not grow. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { endsAs, HOSTILE, HOSTILE_DOCUMENT, THIRTEEN } from '../../packages/server/src/expressions/hostile.suite.ts'

interface Report {
  readonly outcomes: readonly { code?: string; value?: unknown; message?: string }[]
  readonly longestMs: number
  readonly rssMb: number
}

const script = fileURLToPath(new URL('expressions/loop.mjs', import.meta.url))
const started: ChildProcessWithoutNullStreams[] = []

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

function start(isolation: 'in-process' | 'thread') {
  const child = spawn(process.execPath, [script, isolation])
  started.push(child)
  child.stderr.pipe(process.stderr)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async run(...texts: string[]): Promise<Report> {
      child.stdin.write(`${JSON.stringify({ texts, document: HOSTILE_DOCUMENT })}\n`)
      const line = await lines.next()
      if (line.done === true) throw new Error(`the process has ended: ${texts.join(' | ').slice(0, 500)}`)
      return JSON.parse(line.value) as Report
    },
    async end(): Promise<number | null> {
      child.stdin.end()
      const [code] = (await once(child, 'exit')) as [number | null]
      return code
    },
  }
}

describe('a process that evaluates hostile expressions', () => {
  test('lives, and a timer of 10 ms fires within 200 ms, throughout', async () => {
    const loop = start('in-process')
    for (const hostile of HOSTILE) {
      let report = await loop.run(hostile.text)
      // A busy machine stops whole processes for that long. What really blocks does so every time.
      for (let again = 0; again < 4 && report.longestMs > 200; again++) report = await loop.run(hostile.text)
      expect(report.outcomes[0], hostile.name).toSatisfy((found: object) => endsAs(hostile, found))
      expect(report.longestMs, hostile.name).toBeLessThan(200)
    }
    expect(await loop.end()).toBe(0)
  }, 240_000)

  test('lets its timers fire between them, however many come at once', async () => {
    const loop = start('in-process')
    const endless = THIRTEEN[0]?.text ?? ''
    let report = await loop.run(...Array<string>(40).fill(endless))
    for (let again = 0; again < 4 && report.longestMs > 200; again++)
      report = await loop.run(...Array<string>(40).fill(endless))
    expect(report.outcomes.every(({ code }) => code === 'JN_MAX_EVAL_TIME_EXCEEDED')).toBe(true)
    expect(report.longestMs).toBeLessThan(200)
    expect(await loop.end()).toBe(0)
  }, 120_000)

  test('does not grow', async () => {
    const loop = start('in-process')
    const texts = HOSTILE.map(({ text }) => text)
    await loop.run(...texts)
    const { rssMb: before } = await loop.run(...texts)
    for (let round = 0; round < 4; round++) await loop.run(...texts)
    const { rssMb: after } = await loop.run('1')
    expect(after).toBeLessThan(before + 200)
    expect(after).toBeLessThan(700)
  }, 240_000)
})

describe('in a thread', () => {
  test('they end as they do without, and the process hardly notices', async () => {
    const loop = start('thread')
    await loop.run('1')
    for (const hostile of HOSTILE) {
      const { outcomes } = await loop.run(hostile.text)
      expect(outcomes[0], hostile.name).toSatisfy((found: object) => endsAs(hostile, found))
    }
    const { outcomes } = await loop.run('$now()', '$random() < 1', '1 +', '$sum([1..10])')
    expect(outcomes).toMatchObject([
      { value: expect.stringMatching(/^20.*Z$/) },
      { value: true },
      { code: 'JN_PARSE_ERROR' },
      { value: 55 },
    ])
    expect(await loop.end()).toBe(0)
  }, 240_000)
})
