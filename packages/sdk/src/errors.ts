/**
 * What can go wrong, for the application to tell apart by `code`, never by text.
 *
 *   CurfewError ─┬ InputError        the call was wrong before it was sent
 *                ├ UnsupportedError  the server does not announce what it needs
 *                ├ RequestError      the server refused it; `code` and `status` are the server's ─┬ InvalidDefinitionError
 *                │                                                                              └ ApiFailedError
 *                ├ NetworkError      no answer
 *                ├ JobFailedError    the job that was waited for ended without a result
 *                ├ WebhookError      a webhook's signature does not fit (webhook.ts)
 *                ├ WorkflowFailedError    the workflow that was waited for failed, or was cancelled
 *                ├ JourneyFailedError     the run of a journey failed, ran out of time, or was cancelled
 *                ├ StepError         a step was used in a way that cannot work
 *                └ StopError         why a handler's signal was aborted ─┬ DeadlineError ─ StepDeadlineError
 *                                                                        ├ CancelledError
 *                                                                        ├ ShutdownError
 *                                                                        ├ LostLeaseError
 *                                                                        └ SleepingError
 */
import type { ErrorCode, TerminationKind } from '@curfew/core'
import type { DefinitionFinding, JourneyOutcome } from './wire/journeys.ts'

export class CurfewError extends Error {
  readonly code: string
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    code: string,
    message: string,
    options: { details?: Readonly<Record<string, unknown>>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.code = code
    this.details = options.details ?? {}
  }
}

/** The call was wrong before it was sent: `details.field` or `details.path` says where. */
export class InputError extends CurfewError {
  constructor(message: string, details: Readonly<Record<string, unknown>> = {}) {
    super('invalid_input', message, { details })
  }
}

/** What is asked for needs a server that announces it. */
export class UnsupportedError extends CurfewError {
  constructor(message: string, details: Readonly<Record<string, unknown>> = {}) {
    super('unsupported', message, { details })
  }
}

export interface Refusal {
  /** One of the server's codes; a newer server may know more. */
  readonly code: ErrorCode | (string & {})
  readonly message: string
  readonly retryable: boolean
  readonly details: Readonly<Record<string, unknown>>
  readonly hint: string | null
  readonly requestId: string | null
  readonly status: number
  /** What Retry-After asked for. */
  readonly retryAfterMs: number | null
}

/** The server refused: `code`, `status` and `details` are its own. */
export class RequestError extends CurfewError {
  readonly status: number
  readonly retryable: boolean
  readonly hint: string | null
  readonly requestId: string | null
  readonly retryAfterMs: number | null

  constructor(refusal: Refusal) {
    super(refusal.code, refusal.message, { details: refusal.details })
    this.status = refusal.status
    this.retryable = refusal.retryable
    this.hint = refusal.hint
    this.requestId = refusal.requestId
    this.retryAfterMs = refusal.retryAfterMs
  }
}

/** No answer: connection refused or reset, or a timeout. The request may still have taken effect. */
export class NetworkError extends CurfewError {
  constructor(message: string, cause?: unknown) {
    super('network', message, { cause })
  }
}

/** A job ended without a result: `waitForResult` throws it. */
export class JobFailedError extends CurfewError {
  readonly jobId: string
  readonly state: 'cancelled' | 'discarded'
  /** The job's last error, as the server keeps it. */
  readonly error: Readonly<Record<string, unknown>> | null

  constructor(jobId: string, state: 'cancelled' | 'discarded', error: Readonly<Record<string, unknown>> | null) {
    const type = typeof error?.['type'] === 'string' ? error['type'] : null
    const message = typeof error?.['message'] === 'string' ? `: ${error['message']}` : ''
    super(type ?? state, `Job ${jobId} ended ${state}${message}`, { details: { job_id: jobId, state, error } })
    this.jobId = jobId
    this.state = state
    this.error = error
  }
}

/** A workflow failed or was cancelled: `workflows.wait` throws it. */
export class WorkflowFailedError extends CurfewError {
  readonly workflowId: string
  readonly state: 'failed' | 'cancelled'
  /** Why, as the server keeps it: `step_failed`, or `workflow_timeout` with the limit and what passed. */
  readonly error: Readonly<Record<string, unknown>> | null

  constructor(workflowId: string, state: 'failed' | 'cancelled', error: Readonly<Record<string, unknown>> | null) {
    const type = typeof error?.['type'] === 'string' ? error['type'] : null
    const message = typeof error?.['message'] === 'string' ? `: ${error['message']}` : ''
    super(type ?? state, `Workflow ${workflowId} ended ${state}${message}`, {
      details: { workflow_id: workflowId, state, error },
    })
    this.workflowId = workflowId
    this.state = state
    this.error = error
  }
}

/** A run of a journey did not succeed: `journeys.result` throws it. `code` is that of the run's own error. */
export class JourneyFailedError extends CurfewError {
  readonly journeyId: string
  readonly reason: string
  /** `Timeout`: its budget was spent. */
  readonly terminationKind: TerminationKind
  readonly terminatedAtState: string
  readonly outcome: JourneyOutcome

  constructor(outcome: JourneyOutcome) {
    const { journeyId, journeyName, error, terminationKind, terminatedAtState } = outcome
    const { code, reason } = error ?? { code: outcome.status, reason: 'It did not say why.' }
    super(code, `Run ${journeyId} of ${journeyName} ended at ${terminatedAtState}: ${code}: ${reason}`, {
      details: { journeyId, terminationKind, terminatedAtState, reason },
    })
    this.journeyId = journeyId
    this.reason = reason
    this.terminationKind = terminationKind
    this.terminatedAtState = terminatedAtState
    this.outcome = outcome
  }
}

/** A definition is not right: `journeys.deploy` throws it, with everything that is wrong. */
export class InvalidDefinitionError extends RequestError {
  readonly errors: readonly DefinitionFinding[]
  readonly warnings: readonly DefinitionFinding[]

  constructor(name: string, refusal: RequestError) {
    const { errors = [], warnings = [] } = refusal.details as Partial<Record<string, readonly DefinitionFinding[]>>
    const told = errors.slice(0, 5).map(({ code, path, message }) => `\n  ${code} at ${path || '/'}: ${message}`)
    const more = errors.length > told.length ? `\n  and ${String(errors.length - told.length)} more` : ''
    super({ ...refusal, message: `${name} is not valid: ${refusal.message}${told.join('')}${more}` })
    this.errors = errors
    this.warnings = warnings
  }
}

/** An Api answered with anything but success: `apis.call` throws it. `body` is what it answered, whatever its shape. */
export class ApiFailedError extends RequestError {
  readonly body: unknown

  constructor(refusal: RequestError, body: unknown) {
    super({ ...refusal, message: refusal.message })
    this.body = body
  }
}

// ---- Why a handler is stopped: the reason on its signal ----

/** `budget`: a `withBudget` was over. `grace`: so was the grace, in which a `withBudget` ran. `step`: the timeout of a step. */
export type DeadlineKind = 'execution' | 'total' | 'stalled' | 'budget' | 'grace' | 'step'

export class StopError extends CurfewError {}

/** Its time is up. `kind` says which limit, `limitMs` how long it was, `source` who set it. */
export class DeadlineError extends StopError {
  readonly kind: DeadlineKind
  readonly limitMs: number
  readonly source: string

  constructor(
    kind: DeadlineKind,
    limitMs: number,
    source: string,
    step?: { readonly name: string; readonly said: string },
  ) {
    const limit = `the ${kind} limit of ${String(limitMs)} ms (set by ${source}) has passed.`
    super('deadline', step === undefined ? `Time is up: ${limit}` : `Step "${step.name}" ${step.said}: ${limit}`, {
      details: { kind, limit_ms: limitMs, source, ...(step === undefined ? {} : { step: step.name }) },
    })
    this.kind = kind
    this.limitMs = limitMs
    this.source = source
  }
}

/** The time of a step is up: by its own timeout (`kind: 'step'`), or by a limit of its attempt. */
export class StepDeadlineError extends DeadlineError {
  readonly step: string

  constructor(step: string, kind: DeadlineKind, limitMs: number, source: string, isStarted = true) {
    super(kind, limitMs, source, { name: step, said: isStarted ? 'was stopped' : 'was not started' })
    this.step = step
  }
}

/** `ctx.sleep` has given the job back: the attempt ends here, and goes on after the sleep. Rethrow it where errors are caught. */
export class SleepingError extends StopError {
  readonly step: string
  readonly until: Date

  constructor(step: string, until: Date) {
    super(
      'sleeping',
      `The job sleeps in "${step}" until ${until.toISOString()}; this error ends its attempt. Let it pass.`,
      {
        details: { step, until: until.toISOString() },
      },
    )
    this.step = step
    this.until = until
  }
}

/** A step was used in a way that cannot work: `code` says which rule it broke, the message what to do. */
export type StepErrorCode =
  | 'step_name'
  | 'step_repeated'
  | 'step_order_changed'
  | 'step_result'
  | 'too_many_steps'
  | 'steps_too_large'
  | 'sleep_beyond_total'

export class StepError extends CurfewError {
  readonly step: string
  /** Whether another attempt of the job might help. */
  readonly retryable: boolean

  constructor(
    code: StepErrorCode,
    step: string,
    message: string,
    options: { retryable?: boolean; cause?: unknown } = {},
  ) {
    super(code, message, { details: { step }, ...(options.cause === undefined ? {} : { cause: options.cause }) })
    this.step = step
    this.retryable = options.retryable ?? false
  }
}

/** The job was cancelled; its result is discarded. */
export class CancelledError extends StopError {
  constructor() {
    super('cancelled', 'The job was cancelled.')
  }
}

/** The worker is shutting down; the job will run elsewhere. */
export class ShutdownError extends StopError {
  constructor() {
    super('shutdown', 'The worker is shutting down; the job goes back to its queue.')
  }
}

/** The job may be running elsewhere by now: whatever this attempt still does, it does beside another one. */
export class LostLeaseError extends StopError {
  constructor(message = 'The server no longer counts on this attempt.') {
    super('lost_lease', message)
  }
}

/** Thrown by a handler: trying again would not help. */
export class NonRetryableError extends CurfewError {
  constructor(message: string, options: { code?: string; details?: Record<string, unknown>; cause?: unknown } = {}) {
    super(options.code ?? 'non_retryable', message, options)
  }
}
