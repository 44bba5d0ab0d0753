/** What the server tells of journeys and their runs, field by field as it writes it. */
import type { LimitedBy, RunKind, TerminationKind } from '@curfew/core'

export interface JourneyLink {
  readonly href: string
  readonly method: string
}

interface RunHead {
  readonly journeyId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly kind: RunKind
  readonly startedAt: string
  readonly endedAt?: string
  readonly deadlineAt: string
  readonly effectiveMaxDurationSec: number
  /** Who set the budget. */
  readonly limitedBy: LimitedBy
  /** The run it cleans up after, and the one that cleans up after it. */
  readonly compensates?: string
  readonly compensatedBy?: string
  readonly tags: readonly string[]
  readonly attributes: Readonly<Record<string, string>>
  readonly _links?: Readonly<Record<string, JourneyLink>>
  /** What the definition shows of its data besides. */
  readonly [projected: string]: unknown
}

/** Where a run is. */
export interface JourneyStatus extends RunHead {
  readonly phase: 'RUNNING' | 'SUCCEEDED' | 'FAILED'
  /** A path: `fanout/kyc/call`. */
  readonly currentState: string
  /** All of them, when several branches are open. */
  readonly activeStates?: readonly string[]
  readonly updatedAt: string
  readonly remainingMs: number
}

/** How a run ended. */
export interface JourneyOutcome<Out = unknown> extends RunHead {
  readonly phase: 'SUCCEEDED' | 'FAILED'
  /** The definition's own word for it. */
  readonly status: string
  readonly output: Out
  readonly error: { readonly code: string; readonly reason: string } | null
  readonly terminationKind: TerminationKind
  readonly terminatedAtState: string
  readonly outcomeId?: string
}

declare const gives: unique symbol

/** A run that has been accepted, as `start` gives it. */
export interface RunningJourney<Out = unknown> {
  readonly phase: 'RUNNING'
  readonly journeyId: string
  readonly journeyName: string
  /** Where it is; only when the start waited for that. */
  readonly status: JourneyStatus | null
  readonly [gives]?: Out
}

/** What `start` gives: still running, or over already. */
export type StartedJourney<Out = unknown> = RunningJourney<Out> | JourneyOutcome<Out>

/** What is wrong, or doubtful, about a definition. */
export interface DefinitionFinding {
  readonly code: string
  /** A JSON pointer. */
  readonly path: string
  readonly line?: number
  readonly column?: number
  readonly message: string
}

export interface DeployedDefinition {
  readonly name: string
  readonly version: string
  readonly kind: string
  readonly effectiveMaxDurationSec: number
  readonly warnings: readonly DefinitionFinding[]
}

export interface StoredDefinition extends DeployedDefinition {
  readonly definition: unknown
  readonly versions: readonly string[]
}

/** A definition in a list. */
export interface DefinitionHead {
  readonly name: string
  readonly version: string
  readonly kind: string
  readonly [field: string]: unknown
}

/** What a run did, step by step. */
export interface RunHistory {
  readonly journeyId: string
  readonly phase: string
  readonly context: Readonly<Record<string, unknown>>
  readonly steps: readonly Readonly<Record<string, unknown>>[]
  /** How many older steps are not kept. */
  readonly omitted: number
  readonly [field: string]: unknown
}

/** A schedule that a journey made: it starts runs of another. */
export interface ScheduleView {
  readonly scheduleId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly startAt: string
  readonly intervalMs: number
  readonly maxRuns: number
  readonly runsEnded: number
  /** Absent while a run is under way. */
  readonly nextAt?: string
  readonly runId?: string
  readonly createdAt: string
  readonly [field: string]: unknown
}

export interface ValidatedDefinition {
  readonly errors: readonly DefinitionFinding[]
  readonly warnings: readonly DefinitionFinding[]
}
