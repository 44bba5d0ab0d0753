/**
 * One attempt as plain data, which crosses a thread or a process: what the handler learns, what it asks for, why it must
 * stop, and how it ended. Instants are on the system's monotonic clock (`nodeHost.monotonicMs`).
 */
import type { LogLine, StoredStep } from '@curfew/core'

/** Why a handler must stop, as data; `stopError` turns it into the reason on the signal. */
export type Stop =
  | {
      readonly why: 'deadline'
      readonly kind: 'execution' | 'total' | 'stalled'
      readonly limitMs: number
      readonly source: string
    }
  | { readonly why: 'cancelled' }
  | { readonly why: 'shutdown' }
  | { readonly why: 'lost'; readonly message?: string }

/** What is known of the job's steps, and of the server's clock. */
export interface StepFacts {
  /** What earlier attempts have stored. */
  readonly stored: readonly StoredStep[]
  /** The server's clock less the monotonic one, in milliseconds; null: the server does not tell, and no job can sleep. */
  readonly serverOffsetMs: number | null
  /** The same at least: the offset above is too large by the time that the question for the job was on its way. */
  readonly leastOffsetMs?: number
  /** When the job must be over, on the server's clock; null: never. */
  readonly totalAt: number | null
  readonly totalMs: number | null
  readonly totalSource: string
}

/** What the handler learns about its job. */
export interface AttemptFacts {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  readonly attempt: number
  readonly lease: number | null
  readonly maxAttempts: number | null
  readonly args: readonly unknown[]
  /** What a plain function gets: the arguments, or the only one of them. */
  readonly input: unknown
  readonly meta: Readonly<Record<string, unknown>>
  readonly lastCheckpoint: unknown
  readonly steps?: StepFacts
  readonly workflowId: string | null
  readonly parentResults: readonly unknown[]
  /** When the signal is aborted, and with what. */
  readonly softAt: number
  readonly softStop: Stop
  /** When the attempt is over, whatever it does. */
  readonly hardAt: number
}

/** What a handler asks of its worker. */
export type Call =
  | { readonly op: 'progress'; readonly value: number; readonly message?: string; readonly data?: unknown }
  | { readonly op: 'checkpoint'; readonly state: unknown }
  /** Resolves when the step is stored. */
  | { readonly op: 'step'; readonly step: StoredStep }
  /** The attempt ends, and the job goes on at this instant of the server's clock. */
  | { readonly op: 'sleep'; readonly name: string; readonly until: number }
  | { readonly op: 'heartbeat' }
  /** `dropped`: how many lines were left out before these, because there were too many. */
  | { readonly op: 'log'; readonly lines: readonly LogLine[]; readonly dropped: number }
  | {
      readonly op: 'enqueue'
      readonly type: string
      readonly input: unknown
      readonly options: unknown
      readonly defaults: unknown
    }

export interface ErrorData {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly details?: unknown
  readonly stack?: string
  readonly retryable?: boolean
  /** An error of the SDK crosses as what it is: RequestError keeps its status, and so on. */
  readonly status?: number
  /** When the handler asked to be tried again. */
  readonly retryAt?: string
}

/**
 * `startMs`: whole milliseconds of the attempt that went into starting its isolate, from the order to run until the
 * handler began; left out when there were none.
 */
export type Ending =
  | { readonly kind: 'returned'; readonly result: unknown }
  | { readonly kind: 'threw'; readonly error: ErrorData; readonly startMs?: number }
  /** It gave the job back until an instant of the server's clock. */
  | { readonly kind: 'slept'; readonly name: string; readonly until: number }
  /** Ended by force. `stack` is where it was stuck, as far as it could be seen. */
  | {
      readonly kind: 'killed'
      readonly stop: Stop
      readonly stack: readonly string[] | null
      readonly startMs?: number
    }
  /** Had to stop while its isolate was still starting or loading the module: the handler has not run a line. */
  | {
      readonly kind: 'not_begun'
      readonly stop: Stop
      readonly stack: readonly string[] | null
      readonly startMs: number
    }
  /** The isolate died by itself, or could not be started: out of memory, process.exit, a crash, a missing module. */
  | { readonly kind: 'died'; readonly error: ErrorData; readonly startMs?: number }
