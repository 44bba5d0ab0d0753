import { expect, test } from 'vitest'
import { entryUrl } from './entry.ts'
import { STACK_QUESTION, stackIn } from './stack-question.ts'

const ours = (file: string): string => new URL(file, entryUrl('isolate/thread-main')).href
const told = (...frames: string[]): readonly string[] | null =>
  stackIn({ result: { value: ['Error', ...frames.map((frame) => `    at ${frame}`)].join('\n') } })

test('the stack is that of the handler, without the question and without what called the handler', () => {
  expect(
    told(
      '<anonymous>:4:23',
      '<anonymous>:7:5',
      'RegExp.test (<anonymous>)',
      'check (file:///app/handler.js:3:9)',
      'handler (file:///app/handler.js:9:3)',
      `runHandler (${ours('../define-handler.js')}:22:16)`,
      `async HostedAttempt.run (${ours('host-handler.js')}:63:50)`,
      'process.processTicksAndRejections (node:internal/process/task_queues:95:5)',
    ),
  ).toEqual([
    'at RegExp.test (<anonymous>)',
    'at check (file:///app/handler.js:3:9)',
    'at handler (file:///app/handler.js:9:3)',
  ])
})

test('a frame of ours between two of the handler stays', () => {
  expect(
    told(
      `<anonymous>:4:1`,
      'inner (file:///app/h.js:1:1)',
      `run (${ours('../attempt/context.js')}:1:1)`,
      'h (file:///app/h.js:2:1)',
    ),
  ).toHaveLength(3)
})

test('a handler that merely waits has no stack', () => {
  expect(told('<anonymous>:4:23', '<anonymous>:7:5')).toBeNull()
  expect(told('<anonymous>:4:23', 'listOnTimeout (node:internal/timers:581:17)')).toBeNull()
  // Caught while the SDK below it was at work.
  expect(
    told(
      '<anonymous>:4:23',
      'ImmediateList.append (node:internal/timers:276:9)',
      'new Immediate (node:internal/timers:640:20)',
      'setImmediate (node:timers:305:10)',
      `watch (${ours('host-handler.js')}:80:5)`,
    ),
  ).toBeNull()
  expect(stackIn({})).toBeNull()
})

test('the question leaves the limit of stacks as it was', () => {
  const before = Error.stackTraceLimit

  const stack: unknown = (0, eval)(STACK_QUESTION.expression)
  expect(stack).toContain('stack-question.test')
  expect(Error.stackTraceLimit).toBe(before)
})
