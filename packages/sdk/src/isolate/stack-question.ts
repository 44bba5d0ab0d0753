/**
 * Where is a handler that no longer listens? The inspector interrupts even a busy loop to evaluate an expression on top of
 * what is running, so the stack of an error made there is the answer. Nothing is paused and nothing is slowed down: if the
 * handler comes back in time after all, it has lost a millisecond.
 *
 * Not seen: code that never looks for interrupts (a long JSON.parse, execSync, a native module), and handlers that
 * merely wait, which have no stack.
 */
import { entryUrl } from './entry.ts'

const MAX_FRAMES = 50

export const STACK_QUESTION = {
  expression: `(() => {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = ${String(MAX_FRAMES)}
    const { stack } = new Error()
    Error.stackTraceLimit = stackTraceLimit
    return stack
  })()`,
  returnByValue: true,
  silent: true,
}

/** What `Runtime.evaluate` answers. */
export interface StackAnswer {
  readonly result?: { readonly value?: unknown }
}

/** The frames, innermost first, without the question's own and without the SDK below the handler. Null: none. */
export function stackIn(answer: StackAnswer): readonly string[] | null {
  const text = answer.result?.value
  if (typeof text !== 'string') return null
  const frames = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
  const first = frames.findIndex((frame) => !/<anonymous>:\d+:\d+\)?$/.test(frame))
  const last = frames.findLastIndex((frame) => !frame.includes(OUR_FOLDER) && !/[( ]node:/.test(frame))
  return first === -1 || last < first ? null : frames.slice(first, last + 1)
}

/** The SDK's own files, as they stand in a frame. */
const OUR_FOLDER = new URL('..', entryUrl('isolate/thread-main')).href
