/**
 * Calls the server makes to others, as the engine sees them: one request, one answer, one deadline through the signal.
 * Redirects are answers like any other. Who follows one calls again, and is checked again.
 */

export interface OutgoingCall {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** Aborted when the time is up, or the answer is no longer needed. The one deadline of the whole exchange. */
  readonly signal: AbortSignal
  /** How much of the answer is read; what is longer is cut off. */
  readonly mostBytes: number
}

export interface OutgoingAnswer {
  readonly status: number
  /** Names in lower case; a repeated header is joined with commas. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The answer was longer than what was read of it. */
  readonly truncated: boolean
}

export type Send = (call: OutgoingCall) => Promise<OutgoingAnswer>

/** The call was not made, and would not be made the next time either: it is never tried again. */
export class CallRefused extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CallRefused'
  }
}

export const BLOCKED = 'blocked by the private-network guard (--allow-private-network)'
/** Whatever the flag says. */
export const BLOCKED_METADATA = 'blocked: the address belongs to the metadata service of a cloud, which is never called'

/** The call was made, or begun, and brought no answer. `reason` is for people; nothing of the other side is in it. */
export class CallFailed extends Error {
  readonly reason: string

  constructor(reason: string, cause: unknown) {
    super(`no answer: ${reason}`, { cause })
    this.name = 'CallFailed'
    this.reason = reason
  }
}

/** For a server that makes no calls. */
export const callsNobody: Send = () => Promise.reject(new CallRefused('this server makes no calls'))
