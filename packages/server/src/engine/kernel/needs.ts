/** The rows that a command asks for, by name, and what other rows are found by. */
import type { DocName, JobState } from '@curfew/core'

/** The rows a command will ask for, by name. */
export interface Needs {
  readonly workers?: readonly string[]
  readonly jobs?: readonly string[]
  /** Ids under which jobs are to be added: most likely there are none. */
  readonly added?: readonly string[]
  readonly queues?: readonly string[]
  readonly types?: readonly string[]
  /** Workers whose notices are wanted. */
  readonly notices?: readonly string[]
  /** Workers of which it is wanted which jobs they hold. */
  readonly held?: readonly string[]
  readonly docs?: readonly DocName[]
  /** Names to lock until the transaction ends, for what has no row yet. */
  readonly names?: readonly string[]
  /** Jobs by their fingerprint. */
  readonly unique?: readonly Fingerprint[]
}

/** Jobs that share a fingerprint, as far as they are in one of these states. */
export interface Fingerprint {
  readonly key: string
  readonly states: readonly JobState[]
}

/** An entry of the inbox; null: its body is too large. */
export interface Laid {
  readonly id: string
  readonly body: string | null
}
