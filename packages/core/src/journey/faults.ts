/**
 * What can go wrong inside a run, besides what its author foresaw: a closed list. A fault ends the frame it happens in as
 * `RuntimeError`, with its code and its message; those of expressions (`JN_*`) pass as they are.
 *
 * Messages go into outcomes and logs. They name what and where, never the data.
 */

export const RUNTIME_FAULTS = [
  /** A placeholder names nothing, or null. */
  'RUNTIME_MISSING_VALUE',
  /** A header's value has characters that cannot be sent. */
  'RUNTIME_BAD_HEADER',
  /** What became of a URL cannot be called. */
  'RUNTIME_BAD_URL',
  /** A value is not of the kind that is needed here. */
  'RUNTIME_TYPE_MISMATCH',
  /** No choice holds, and there is no default. */
  'RUNTIME_NO_CHOICE',
  /** The output does not match its schema. */
  'RUNTIME_INVALID_OUTPUT',
  /** An attribute is not a text, is too long, or is one too many. */
  'RUNTIME_ATTRIBUTE',
  /** An expression gave no duration or instant. */
  'RUNTIME_BAD_TIMER',
  /** The job could not be enqueued. */
  'RUNTIME_JOB_REFUSED',
  /** The run's data, or what is to be sent, is too large. */
  'RUNTIME_TOO_LARGE',
  /** Subjourneys are nested too deeply. */
  'RUNTIME_TOO_DEEP',
  /** An expression gave nothing that a schedule can be made of. */
  'RUNTIME_BAD_SCHEDULE',
  /** There is a schedule already, and the state says to fail then. */
  'RUNTIME_SCHEDULE_EXISTS',
  /** The server lacks configuration that the definition asks for. */
  'RUNTIME_CONFIG',
  /** The server does not know the profile of API keys, or cannot use it. */
  'APIKEY_CONFIG_INVALID',
  /** More branches would be open side by side than a run may have. */
  'RUNTIME_TOO_WIDE',
  /** More states were entered than a run may enter, in all or without waiting for anything. */
  'RUNTIME_TOO_MANY_STEPS',
  /** A fault of ours. */
  'RUNTIME_INTERNAL',
] as const

export type RunFaultCode = (typeof RUNTIME_FAULTS)[number] | `JN_${string}`

export class RunFault extends Error {
  readonly code: RunFaultCode

  constructor(code: RunFaultCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RunFault'
    this.code = code
  }
}
