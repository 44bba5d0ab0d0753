/**
 * A journey: a durable state machine that states how long a whole run of it may take. Here is a definition as it is once
 * it has been read and found right (`journey/read/reader.ts`); a run of it is in `journey/run/run.ts`, and how it goes on in
 * `journey/run/walk.ts`.
 *
 * Lengths are milliseconds, whatever unit the author wrote. Graphs nest: the branches of a parallel state, subjourneys
 * and the compensation are graphs of their own, whose states know only each other.
 */
import type { Millis } from '../time/clock.ts'
import type { Json } from '../job/job.ts'
import type { ConfigKeys } from './config.ts'

export const JOURNEY_KINDS = ['Journey', 'Api'] as const
export type JourneyKind = (typeof JOURNEY_KINDS)[number]

/** `lang` names the engine; there is no default one. */
export interface Expression {
  readonly lang: string
  readonly expr: string
}

/** A JSON Schema (2020-12), as it was written. */
export type DataSchema = Readonly<Record<string, unknown>> | boolean

export type StateId = string

export interface Graph {
  readonly start: StateId
  readonly states: Readonly<Record<StateId, State>>
}

export interface Definition extends Graph {
  readonly kind: JourneyKind
  readonly name: string
  readonly version: string
  readonly description: string | null
  readonly tags: readonly string[]
  /** What the author allows a run to take; null: the platform's default. */
  readonly execution: { readonly maxDurationMs: Millis; readonly onTimeout: TimeoutEnding } | null
  readonly startMode: 'sync' | 'async'
  readonly cancellable: boolean
  /** Answers tell where to go next (`_links`). */
  readonly links: boolean
  readonly http: { readonly timeoutMs: Millis | null; readonly headers: Readonly<Record<string, string>> }
  readonly input: DataSchema | null
  readonly output: { readonly schema: DataSchema | null; readonly response: Projection | null }
  readonly envelope: { readonly format: 'problemDetails' } | { readonly format: 'custom'; readonly mapper: Expression }
  /** Classification only, in the order in which they are tried. */
  readonly outcomes: readonly {
    readonly id: string
    readonly phase: 'SUCCEEDED' | 'FAILED'
    readonly predicate: Expression | null
  }[]
  readonly subjourneys: Readonly<Record<string, Graph>>
  /** Predicate null in `alsoFor`: for every success. */
  readonly compensation: (Graph & { readonly alsoFor: readonly { readonly predicate: Expression | null }[] }) | null
  readonly metadata: MetadataBindings
  /** What is taken over from the request that starts a run, and from submissions, by the id of their step. */
  readonly starting: Inbound
  readonly submitting: Readonly<Record<StateId, Inbound>>
  /** Kind Api only; the path is below /api/v1. */
  readonly route: { readonly path: string; readonly method: string } | null
  readonly apiResponses: ApiResponses | null
  /** What it asks of the server's configuration. */
  readonly config: ConfigKeys
  /** The API keys that its states ask for. */
  readonly apiKeys: readonly Pick<ApiKeyCheck, 'profile' | 'source'>[]
}

export interface TimeoutEnding {
  readonly errorCode: string
  readonly reason: string
}

/** Members of an object in the context that are shown at the top of an answer. */
export interface Projection {
  readonly outputVar: string | null
  readonly schema: DataSchema | null
}

/** Where a run's tags and attributes come from, besides the definition: dot paths, header names, baggage keys. */
export interface MetadataBindings {
  readonly tags: {
    readonly fromPayload: readonly string[]
    readonly fromHeaders: readonly string[]
    readonly fromBaggage: readonly string[]
  }
  readonly attributes: {
    readonly fromPayload: Readonly<Record<string, string>>
    readonly fromHeaders: Readonly<Record<string, string>>
    readonly fromBaggage: Readonly<Record<string, string>>
  }
}

export interface Inbound {
  /** Header (lower case) or query parameter → member of the context. */
  readonly headersToContext: Readonly<Record<string, string>>
  readonly queryToContext: Readonly<Record<string, string>>
  /** For the calls made while this request is served; never stored. */
  readonly headersPassthrough: readonly { readonly from: string; readonly to: string }[]
}

export interface ApiResponses {
  readonly rules: readonly {
    readonly phase: 'SUCCEEDED' | 'FAILED'
    readonly errorType: string | null
    readonly predicate: Expression | null
    readonly status: number | Expression
  }[]
  readonly succeeded: number
  /** Null: the status of the problem. */
  readonly failed: number | null
}

/** What an Api may answer: a final status, and one that says so where the run failed. */
export const API_STATUSES = {
  SUCCEEDED: { least: 200, most: 599 },
  FAILED: { least: 400, most: 599 },
} as const

/** HTTP allows no body with it (RFC 9110); only with 204 and 304 is the output of an Api left out. */
export const BODILESS_STATUS = 205

export function isApiStatus(phase: keyof typeof API_STATUSES, status: unknown): status is number {
  const { least, most } = API_STATUSES[phase]
  if (typeof status !== 'number' || !Number.isInteger(status) || status === BODILESS_STATUS) return false
  return status >= least && status <= most
}

export type State =
  | HttpCall
  | JobTask
  | ScheduleTask
  | ApiKeyCheck
  | Choice
  | Transform
  | Wait
  | TimerState
  | Parallel
  | Subjourney
  | { readonly type: 'succeed'; readonly outputVar: string | null }
  | { readonly type: 'fail'; readonly errorCode: string; readonly reason: string }

const TASKS: ReadonlySet<State['type']> = new Set(['httpCall', 'job', 'schedule', 'apiKeyCheck'])

/** What authors call it: a task is a task, whatever it does. */
export function stateTypeOf({ type }: State): string {
  return TASKS.has(type) ? 'task' : type
}

export interface HttpCall {
  readonly type: 'httpCall'
  readonly method: string
  /** With `${context.a.b}` in it. */
  readonly url: string
  /** For the query. */
  readonly params: Readonly<Record<string, string>>
  /** Its own; those of the definition's defaults come first. */
  readonly headers: Readonly<Record<string, string>>
  /** Literal (its string leaves are interpolated), or what an expression makes of the context; null: none. */
  readonly body: { readonly literal: Json } | { readonly mapper: Expression } | null
  /** Absent in definitions that were read before there was any. */
  readonly auth?: CallAuth | null
  readonly timeoutMs: Millis | null
  readonly mode: 'requestResponse' | 'notify'
  readonly resultVar: string | null
  readonly resilience: Resilience | null
  readonly errorMapping: { readonly mapper: Expression; readonly target: Target } | null
  readonly next: StateId
}

/** The secret by which a call proves who makes it: named here, known to the server alone. */
export interface CallAuth {
  readonly secretRef: string
  /** In lower case. */
  readonly header: string
  readonly scheme: 'bearer' | 'basic' | 'plain'
  readonly username: string | null
}

export const RETRY_CONDITIONS = ['NETWORK_ERROR', 'TIMEOUT', 'HTTP_5XX', 'HTTP_429'] as const

export interface Resilience {
  readonly maxAttempts: number
  readonly retryOn: readonly (typeof RETRY_CONDITIONS)[number][]
  readonly backoff: {
    readonly kind: 'fixed' | 'exponential'
    readonly baseDelayMs: Millis
    readonly maxDelayMs: Millis
    readonly jitter: 'none' | 'full'
  }
}

export interface JobTask {
  readonly type: 'job'
  readonly jobType: string
  /** What is sent besides type and args, as members of an enqueue request: queue, priority, timeouts, retry. */
  readonly request: Readonly<Record<string, unknown>>
  readonly args: { readonly literal: Json } | { readonly mapper: Expression }
  readonly mode: 'await' | 'notify'
  /** Not bound to the run's deadline; with `notify` only. */
  readonly detach: boolean
  readonly resultVar: string | null
  readonly next: StateId
}

/** Runs that begin by themselves: what is not written down is made by an expression. */
export interface ScheduleTask {
  readonly type: 'schedule'
  /** Where a scheduled run begins, in the definition's own states. */
  readonly start: StateId
  /** Null: as soon as possible. */
  readonly startAt: string | Expression | null
  readonly interval: string | Expression
  readonly maxRuns: number | Expression
  readonly subjectId: Expression | null
  /** Null: the context as it is. */
  readonly context: Expression | null
  readonly onExisting: 'fail' | 'upsert' | 'addAnother'
  readonly next: StateId
}

export interface KeySource {
  readonly location: 'header' | 'query'
  /** A header in lower case. */
  readonly name: string
}

/** Writes who sent the request into the context, or why that is not known. */
export interface ApiKeyCheck {
  readonly type: 'apiKeyCheck'
  readonly profile: string
  /** Null: where the profile says. */
  readonly source: KeySource | null
  readonly authVar: string
  readonly next: StateId
}

export interface Choice {
  readonly type: 'choice'
  readonly choices: readonly { readonly predicate: Expression; readonly next: StateId }[]
  readonly default: StateId | null
}

/** Where a value goes: into a variable, to a path of the context (none: in the place of all of it), to attributes. */
export type Target =
  | { readonly kind: 'context'; readonly path: readonly string[] }
  | { readonly kind: 'var'; readonly name: string }
  | { readonly kind: 'attributes' }

export interface Transform {
  readonly type: 'transform'
  readonly mapper: Expression
  readonly target: Target
  readonly next: StateId
}

/** Open until a submission: by a person (`wait`) or a callback from outside (`webhook`). */
export interface Wait {
  readonly type: 'wait' | 'webhook'
  readonly input: DataSchema
  readonly response: Projection | null
  readonly timeoutMs: Millis | null
  readonly onTimeout: StateId | null
  readonly next: StateId
}

export interface TimerState {
  readonly type: 'timer'
  /** ISO 8601 duration or RFC 3339 instant, written down or made by an expression. */
  readonly kind: 'duration' | 'until'
  readonly due: string | Expression
  readonly next: StateId
}

export interface Parallel {
  readonly type: 'parallel'
  readonly branches: readonly (Graph & { readonly name: string })[]
  readonly join: {
    readonly strategy: 'allOf' | 'anyOf' | 'firstCompleted'
    readonly errorPolicy: 'collectAll' | 'failFast' | 'ignoreErrors'
    readonly mapper: Expression | null
    readonly resultVar: string | null
  }
  readonly next: StateId
}

export interface Subjourney {
  readonly type: 'subjourney'
  readonly ref: string
  readonly input: Expression | null
  readonly resultVar: string | null
  readonly resultKind: 'output' | 'outcome'
  readonly onFailure: 'propagate' | 'capture'
  readonly next: StateId
}
