import { expect, test } from 'vitest'
import { instant, MAX_LOG_LINES, type LogLine } from '@curfew/core'
import { IsolateLog } from './isolate-log.ts'

const line = (n: number): LogLine => ({ at: instant(0), message: String(n) })
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

test('a line is sent at once; when the worker does not keep up the newest wait, and the rest is counted', async () => {
  const sent: { readonly first: string | undefined; readonly count: number; readonly dropped: number }[] = []
  const answers: (() => void)[] = []
  const log = new IsolateLog((lines, dropped) => {
    sent.push({ first: lines[0]?.message, count: lines.length, dropped })
    return new Promise<void>((resolve) => answers.push(resolve))
  })
  // All in one turn: no answer can come in between.
  for (let n = 0; n < 5_000; n += 1) log.add([line(n)])
  expect(sent).toHaveLength(MAX_LOG_LINES)
  expect(sent.every(({ count, dropped }) => count === 1 && dropped === 0)).toBe(true)
  answers[0]?.()
  await turn()
  const waited = 5_000 - MAX_LOG_LINES
  expect(sent.at(-1)).toEqual({
    first: String(5_000 - MAX_LOG_LINES),
    count: MAX_LOG_LINES,
    dropped: waited - MAX_LOG_LINES,
  })
  log.add([line(5_000)])
  expect(sent).toHaveLength(MAX_LOG_LINES + 1)
  log.flush()
  expect(sent.at(-1)).toEqual({ first: '5000', count: 1, dropped: 0 })
})
