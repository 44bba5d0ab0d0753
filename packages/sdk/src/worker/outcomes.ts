/**
 * What the server hears of an attempt: its ending, or that it goes back untouched; and what follows from the answer.
 *
 * A report that the server refuses although it still counts on the attempt is replaced by a failure that says why.
 */
import { elapsed, isDue, type Instant } from '@curfew/core'
import { keyOf, reportOf, type AnyEnding, type Hold, type Report } from '../attempt/report.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { AttemptTable } from './attempt-table.ts'
import type { Effects } from './effects.ts'
import { bufferedMs, newAttempt, NO_HANDLER, NO_TERMS, stoppedBy, type HeldAttempt } from './held-attempt.ts'
import type { Delivery, LeaseName } from './inputs.ts'

/** Refusals that say that the attempt is over. After any other refusal the job is still held. */
const IS_OVER: readonly string[] = ['conflict', 'not_found']
const UNREPORTABLE = 'report_refused'

export class Outcomes {
  readonly #effects: Effects
  readonly #table: AttemptTable
  readonly #send: (report: Report) => void

  constructor(effects: Effects, table: AttemptTable, send: (report: Report) => void) {
    this.#effects = effects
    this.#table = table
    this.#send = send
  }

  // ---- Never begun ----

  /** Hands back a job that was not begun. It uses no try. */
  handBack(held: HeldAttempt, message: string, type = 'shutdown'): void {
    this.notBegun(held, handBackReport(held.hold, type, message))
  }

  handBackUnbegun(message: string): void {
    for (const held of this.#table.unbegun()) this.handBack(held, message)
  }

  /** A job that never arrived, though the server takes it for held here. */
  handBackUnknown({ jobId, lease }: LeaseName, now: Instant): void {
    const hold: Hold = { jobId, attempt: 0, lease }
    const job = { id: jobId } as HandedJob
    const held = this.#table.add(newAttempt(keyOf(hold), hold, job, NO_TERMS, NO_HANDLER, now))
    this.handBack(held, 'The answer that handed out the job did not arrive.', 'lost_answer')
  }

  notBegun(held: HeldAttempt, report: Report): void {
    this.#table.enter(held, 'over')
    this.#report(held, report)
  }

  /** Its time was up before its handler could be started. */
  neverStarted(held: HeldAttempt): void {
    const { hold, terms } = held
    this.#table.enter(held, 'over')
    const error = { name: 'Error', message: 'The job arrived when its time was up; it was not started.' }
    this.close(held, reportOf(hold, terms, terms.softStop, { kind: 'threw', error }, terms.softAt))
  }

  // ---- Begun ----

  /** Its handler has ended. */
  ended(held: HeldAttempt, ending: AnyEnding, now: Instant): void {
    const wasAbandoned = held.step === 'abandoned'
    this.#table.enter(held, 'over')
    if (wasAbandoned) this.#endedLate(held, ending, now)
    else this.#closeWith(held, ending, now)
  }

  /** The handler did not stop in time. Nothing it does from here on counts. */
  abandon(held: HeldAttempt, now: Instant): void {
    this.#table.enter(held, 'abandoned')
    this.#effects.do({ do: 'abandon', key: held.key })
    this.#closeWith(held, { kind: 'abandoned' }, now)
  }

  /** A handler that was given up has ended after all: what the server may still wait for is handed back. */
  #endedLate(held: HeldAttempt, ending: AnyEnding, now: Instant): void {
    const { hold, terms, stop } = held
    this.#effects.log(
      'warn',
      { job_id: hold.jobId, attempt: hold.attempt, outcome: ending.kind, late_ms: elapsed(terms.hardAt, now) },
      'abandoned handler finished; result discarded',
    )
    if (held.isReported) return
    const isOpen = (held.isLost || stop?.why === 'shutdown') && !isDue(terms.hardAt, now)
    if (!isOpen) this.#table.forget(held)
    else this.#report(held, handBackReport(hold, 'lost_lease', 'The handler stopped after the worker had given it up.'))
  }

  #closeWith(held: HeldAttempt, ending: AnyEnding, now: Instant): void {
    this.close(held, reportOf(held.hold, held.terms, stoppedBy(held), ending, now, bufferedMs(held)))
  }

  /** The handler is over, or given up. Null: nothing is reported. */
  close(held: HeldAttempt, report: Report | null): void {
    if (report !== null) {
      this.#report(held, report)
      return
    }
    const { hold } = held
    const stopped = stoppedBy(held)?.why ?? null
    const fields = { job_id: hold.jobId, attempt: hold.attempt, stopped }
    this.#effects.log('info', fields, 'an attempt ended without a report: its outcome no longer counts')
    this.#unlist(held)
  }

  #report(held: HeldAttempt, report: Report): void {
    held.isReported = true
    held.isHandedBack = report.kind === 'nack' && report.requeue
    this.#send(report)
  }

  // ---- Answered ----

  /** The server answered a report. */
  delivered(report: Report, delivery: Delivery & { kind: 'done' | 'refused' }): void {
    const { hold, kind } = report
    if (delivery.kind === 'refused' && !IS_OVER.includes(delivery.code) && this.#reportOtherwise(report, delivery))
      return
    const held = this.#table.get(keyOf(hold))
    if (held !== undefined) {
      held.isReported = false
      this.#unlist(held)
    }
    if (delivery.kind === 'done' || held?.isLost === true) return
    this.#effects.log(
      'warn',
      { job_id: hold.jobId, attempt: hold.attempt, report: kind, code: delivery.code, reason: delivery.message },
      'the server had closed this attempt already; its report was refused',
    )
  }

  /** The server refuses what the report says, and the job is still held: it fails with the reason for that. */
  #reportOtherwise({ kind, hold, ...report }: Report, { code, message }: Delivery & { kind: 'refused' }): boolean {
    if ('error' in report && report.error.code === UNREPORTABLE) return false
    // A result that cannot be stored would not be the next time; what a failure says may be another thing.
    const type = kind === 'ack' ? code : UNREPORTABLE
    const retryable = kind === 'ack' ? { retryable: false } : {}
    const error = { type, code: UNREPORTABLE, message: message.slice(0, 500), ...retryable }
    this.#send({ kind: 'nack', hold, requeue: false, error })
    return true
  }

  /** Beats need not list it any more. It is kept while its handler may run. */
  #unlist(held: HeldAttempt): void {
    if (held.step === 'over') this.#table.forget(held)
    else this.#effects.do({ do: 'unwatch', key: held.key })
  }
}

export function handBackReport(hold: Hold, type: string, message: string): Report {
  return { kind: 'nack', hold, requeue: true, error: { type, code: type, message } }
}
