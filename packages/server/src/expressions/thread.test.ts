/** The thread itself is tried in tests/process/expressions.test.ts; here it is one that misbehaves. */
import { clockFrom } from '@curfew/core'
import { afterEach, expect, test } from 'vitest'
import { nodeHost } from '../host.ts'
import { ThreadExpressions } from './thread.ts'

const opened: ThreadExpressions[] = []

afterEach(async () => {
  for (const expressions of opened.splice(0)) await expressions.close()
})

/** A thread that answers every question but those that name what it should do instead. */
function open(): ThreadExpressions {
  const code = `
    import { parentPort } from 'node:worker_threads'
    parentPort.on('message', ({ text }) => {
      if (text === 'hang') for (;;) {}
      if (text === 'exit') process.exit(3)
      if (text === 'throw') throw new Error('oh')
      if (text === 'eat') { const all = []; for (;;) all.push(new Array(100000).fill(all.length)) }
      parentPort.postMessage({ ok: true, value: text })
    })`
  const entry = new URL(`data:text/javascript,${encodeURIComponent(code)}`)
  const ports = { host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 }
  const expressions = new ThreadExpressions(ports, { maxEvalMs: 200 }, entry)
  opened.push(expressions)
  return expressions
}

const LONG = { budgetMs: 60_000 }

test.each([
  ['hang', 'JN_MAX_EVAL_TIME_EXCEEDED'],
  ['exit', 'JN_ENGINE_INTERNAL_ERROR'],
  ['throw', 'JN_ENGINE_INTERNAL_ERROR'],
])(
  'a thread that says nothing more (%s) is ended, and another takes its place',
  async (text, code) => {
    const expressions = open()
    const [first, misbehaving, next] = await Promise.allSettled(
      ['a', text, 'b'].map((asked) => expressions.evaluate('jsonata', asked, {}, LONG)),
    )
    expect(first).toMatchObject({ value: 'a' })
    expect(misbehaving).toMatchObject({ reason: { code } })
    expect(next).toMatchObject({ value: 'b' })
  },
  30_000,
)

test('a thread that eats memory ends alone', async () => {
  const expressions = open()
  await expect(expressions.evaluate('jsonata', 'eat', {}, LONG)).rejects.toMatchObject({
    code: expect.stringMatching(/SIZE|TIME/),
  })
  expect(await expressions.evaluate('jsonata', 'a', {}, LONG)).toBe('a')
}, 30_000)

test('what is asked after the end is refused, and what cannot be sent too', async () => {
  const expressions = open()
  await expect(expressions.evaluate('jsonata', 'a', { f: () => 1 }, LONG)).rejects.toMatchObject({
    code: 'JN_TYPE_MISMATCH',
  })
  await expressions.close()
  await expect(expressions.evaluate('jsonata', 'a', {}, LONG)).rejects.toMatchObject({
    code: 'JN_ENGINE_INTERNAL_ERROR',
  })
}, 30_000)

test('nothing is sent when no time is left', async () => {
  await expect(open().evaluate('jsonata', 'a', {}, { budgetMs: 0 })).rejects.toMatchObject({
    code: 'JN_MAX_EVAL_TIME_EXCEEDED',
  })
})
