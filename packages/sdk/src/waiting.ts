/** Waiting that ends by itself, by the caller's signal, or not at all; and how long to wait before another try. */
import type { Host, Random } from '@curfew/core'

/** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
export function sleep(host: Host, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(reasonOf(signal))
      return
    }
    const timer = host.setTimer(ms, () => {
      unhook()
      resolve()
    })
    const unhook = onAbort([signal], () => {
      timer.cancel()
      reject(reasonOf(signal))
    })
  })
}

/** Calls `act` when one of the signals is aborted from now on; returns how to stop listening. */
export function onAbort(signals: readonly (AbortSignal | undefined)[], act: () => void): () => void {
  for (const signal of signals) signal?.addEventListener('abort', act, { once: true })
  return () => {
    for (const signal of signals) signal?.removeEventListener('abort', act)
  }
}

/** The promise's own outcome, unless the signal is aborted first. What was promised goes on for others. */
export function unlessAborted<T>(promised: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return promised
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      reject(reasonOf(signal))
    }
    if (signal.aborted) stop()
    promised.then(resolve, reject).finally(onAbort([signal], stop))
  })
}

/** A promise, and the two ways to settle it. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
}

export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (reason: unknown) => void = () => {}
  const promise = new Promise<T>((onValue, onReason) => {
    resolve = onValue
    reject = onReason
  })
  return { promise, resolve, reject }
}

/** A signal of its own, aborted with any of the others or by its own hand; `unlink` when it is no longer needed. */
export function linked(...signals: readonly (AbortSignal | undefined)[]): {
  controller: AbortController
  unlink: () => void
} {
  const controller = new AbortController()
  const unhooks = signals.flatMap((signal) => {
    if (signal === undefined) return []
    const follow = (): void => {
      controller.abort(signal.reason)
    }
    if (signal.aborted) follow()
    return [onAbort([signal], follow)]
  })
  return {
    controller,
    unlink: () => {
      for (const unhook of unhooks) unhook()
    },
  }
}

/** Why the signal was aborted, as something that can be thrown. */
export function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason
  return reason instanceof Error ? reason : new Error('The caller gave up.', { cause: reason })
}

const FIRST_MS = 200
const MAX_MS = 5_000

/** Exponential with full jitter: callers that failed together do not come back together. */
export function backoffMs(failures: number, random: Random, firstMs = FIRST_MS, longestMs = MAX_MS): number {
  return Math.floor(random() * Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 30)))
}
