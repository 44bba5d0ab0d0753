/**
 * An HTTP call of a run, made. One call is up to `maxAttempts` attempts, and each attempt, redirects and the last byte of
 * the answer included, has the smaller of its own timeout and what is left of the run:
 *
 *   attempt ── timeoutMs ──┤ TIMEOUT ── rest ── attempt ── …      deadline ┤ aborted, and no result at all
 *
 * The run's deadline wins every tie. A rest that would not end before it is not taken: the last result stands. What was
 * refused (the guard, a redirect to nowhere, an answer that is too long) would be refused again, and is not retried.
 *
 * Nothing is logged here: URLs, headers and bodies are the author's.
 */
import {
  after,
  budgetLeft,
  callEndsAt,
  delayBefore,
  failedResult,
  isDue,
  isRetryable,
  millis,
  restFits,
  resultOf,
  withDefaults,
  type HttpResult,
  type Instant,
  type Millis,
  type PreparedCall,
  type Resilience,
  type Timer,
} from '@curfew/core'
import { proofOf, withoutSecrets } from './call-auth.ts'
import { onAbort, unlessAborted, until } from '../kernel/until.ts'
import type { JourneysContext } from './context.ts'
import { MAX_REDIRECTS, redirected } from './redirects.ts'
import { CallFailed, CallRefused, type OutgoingAnswer } from '../outgoing.ts'

export interface CallTerms {
  readonly timeoutMs: Millis
  readonly resilience: Resilience | null
  /** Of the run. */
  readonly deadlineAt: Instant
  /** The run has ended, or the server stops. */
  readonly signal: AbortSignal
  /** The same for every attempt, and after a crash. */
  readonly idempotencyKey: string
  /** How much of an answer is read. */
  readonly mostBytes?: number
  /**
   * Breaks a call off after the run's deadline, if the end of the run has not done it by then; at the deadline itself and
   * at once, if it is left out.
   */
  readonly cutOff?: (abort: () => void) => void
}

/** What the engine has to offer to a call. */
export type Caller = Pick<JourneysContext, 'send' | 'host' | 'now' | 'timerAt' | 'random' | 'secrets'>

export const MAX_ANSWER = 1_048_576
/** Node timers above 2^31-1 ms fire at once. */
const MAX_TIMER_MS = 2_147_483_647
const REMAINING = 'X-Curfew-Remaining-Ms'
/** At a deadline its run is ended first, and that aborts the call: the alarms of a thousand calls must not come before. */
const AFTER_DECISION_MS = millis(25)

/** Null: the run's deadline or the signal came first, and there is no result. */
export async function performCall(caller: Caller, call: PreparedCall, terms: CallTerms): Promise<HttpResult | null> {
  const { resilience, deadlineAt } = terms
  const keyed = withDefaults(call, { Accept: 'application/json', 'Idempotency-Key': plain(terms.idempotencyKey) })
  for (let attempt = 1; ; attempt += 1) {
    const tried = await attemptOnce(caller, keyed, terms)
    if (tried === null) return null
    const { result, isFinal } = tried
    if (isFinal || resilience === null || attempt >= resilience.maxAttempts || !isRetryable(result, resilience))
      return result
    const restMs = delayBefore(attempt + 1, resilience, caller.random)
    if (!restFits(deadlineAt, caller.now(), restMs)) return result
    if (restMs > 0) await rest(caller, restMs, terms.signal)
  }
}

/** States may be named in any script; headers may not. */
const plain = (key: string): string =>
  key.replace(/[^\x21-\x7e]/gu, (sign) => `U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase()}`)

interface Tried {
  readonly result: HttpResult
  /** It would be the same the next time. */
  readonly isFinal: boolean
}

async function attemptOnce(caller: Caller, call: PreparedCall, terms: CallTerms): Promise<Tried | null> {
  const { deadlineAt, signal } = terms
  const isOver = (): boolean => signal.aborted || isDue(deadlineAt, caller.now())
  if (isOver()) return null
  const timeoutMs = millis(Math.min(terms.timeoutMs, MAX_TIMER_MS))
  const endsAt = callEndsAt(caller.now(), timeoutMs, deadlineAt)
  const cut = new AbortController()
  const abort = (): void => {
    cut.abort()
  }
  const cutOff = (): void => {
    if (terms.cutOff === undefined) abort()
    else terms.cutOff(abort)
  }
  // A timeout that could come only with the deadline is the deadline.
  const cutOffAt = terms.cutOff === undefined ? deadlineAt : after(deadlineAt, AFTER_DECISION_MS)
  const timer = endsAt === deadlineAt ? alarmAt(caller, cutOffAt, cutOff) : caller.host.setTimer(timeoutMs, abort)
  const unhook = onAbort([signal], abort)
  try {
    const answer = await unlessAborted(follow(caller, call, terms, endsAt, cut.signal), cut.signal)
    return isOver() ? null : { result: resultOf(answer), isFinal: false }
  } catch (error) {
    if (isOver()) return null
    if (cut.signal.aborted)
      return { result: failedResult('TIMEOUT', `no answer within ${String(timeoutMs)} ms`), isFinal: false }
    if (error instanceof CallRefused) return { result: failedResult('NETWORK', error.message), isFinal: true }
    if (error instanceof CallFailed) return { result: failedResult('NETWORK', error.message), isFinal: false }
    throw error
  } finally {
    timer.cancel()
    unhook()
  }
}

/** Each hop gets how long it may still take, so that the called server can keep to it. */
async function follow(
  caller: Caller,
  first: PreparedCall,
  { mostBytes = MAX_ANSWER }: CallTerms,
  endsAt: Instant,
  signal: AbortSignal,
): Promise<OutgoingAnswer> {
  const proof = first.auth == null ? null : proofOf(first.auth, caller.secrets)
  // It goes to the host that the definition names, and to no other that an answer leads to.
  const home = new URL(first.url).origin
  let [call, isHome] = [first, true]
  for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
    const told = { ...without(call.headers, REMAINING), [REMAINING]: String(budgetLeft(endsAt, caller.now())) }
    const headers = proof === null || !isHome ? told : { ...without(told, proof.header), [proof.header]: proof.value }
    const { method, url, body } = call
    const heard = await caller.send({ method, url, body, headers, signal, mostBytes })
    const answer = proof === null ? heard : withoutSecrets(heard, proof)
    const next = redirected(call, answer)
    if (next === null) {
      if (answer.truncated) throw new CallRefused(`the answer is longer than ${String(mostBytes)} bytes`)
      return answer
    }
    call = next
    isHome &&= new URL(call.url).origin === home
  }
  throw new CallRefused(`there are more than ${String(MAX_REDIRECTS)} redirects`)
}

const without = (headers: Readonly<Record<string, string>>, unwanted: string): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.toLowerCase() !== unwanted.toLowerCase()))

// ---- Waiting ----

const rest = (caller: Caller, restMs: Millis, signal: AbortSignal): Promise<void> =>
  until(caller.host, { signals: [signal], ms: Math.min(restMs, MAX_TIMER_MS) })

/** Not before the engine's clock says so: a timer may be early by part of a millisecond. */
function alarmAt(caller: Caller, at: Instant, fire: () => void): Timer {
  const ring = (): void => {
    if (isDue(at, caller.now())) fire()
    else timer = caller.timerAt(at, ring)
  }
  let timer = caller.timerAt(at, ring)
  return {
    cancel: () => {
      timer.cancel()
    },
  }
}
