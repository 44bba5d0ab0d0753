import { expect, test } from 'vitest'
import { LazyAbort } from './lazy-abort.ts'

test('a signal that is asked for before the abort is aborted with its reason', () => {
  const abort = new LazyAbort()
  const { signal } = abort
  expect(signal.aborted).toBe(false)
  const reason = new Error('stop')
  abort.abort(reason)
  expect([signal.aborted, signal.reason, abort.aborted]).toEqual([true, reason, true])
})

test('a signal that is asked for after the abort gives the first reason', () => {
  const abort = new LazyAbort()
  const first = new Error('first')
  abort.abort(first)
  abort.abort(new Error('second'))
  expect(abort.signal.reason).toBe(first)
})

test('the signal is always the same', () => {
  const abort = new LazyAbort()
  expect(abort.signal).toBe(abort.signal)
})
