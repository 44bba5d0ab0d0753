/**
 * The one loop of the server: sleeps until the nearest `wakeAt`, the next sign of life, or the next try after an error of
 * the store, and then runs an empty command, before which everything due is settled. There are no other sweepers.
 */
import { remaining, ALWAYS_IDLE, elapsed, OjsError, type Host, type Instant, type Timer } from '@curfew/core'
import type { Log } from './context.ts'
import type { Command } from './command.ts'
import type { Committed } from './feature.ts'
import type { GroupCommit } from './group-commit.ts'
import { touch } from '../workers/workers.ts'

/** Node timers above 2^31-1 ms fire at once; the loop never sleeps longer than this. */
const MAX_SLEEP_MS = 60_000
const RETRY_STORE_MS = 1_000
/** Other servers hear of an open call this often, or three times within the silence that would mean death. */
const CALL_SEEN_EVERY_MS = 5_000
/** How soon a row that another server has locked is looked for again. */
const MIN_REST_MS = 5
const MAX_REST_MS = 100

export interface WakeLoopParts {
  readonly host: Host
  readonly log: Log
  readonly now: () => Instant
  readonly groupCommit: GroupCommit
  /** Workers with an open call at this server. */
  readonly callingWorkers: () => string[]
  readonly isShared: boolean
  readonly workerTimeoutMs: number
  /** How long it may sleep before the next sign of life; null: none is needed. */
  readonly signOfLifeMs: (now: Instant) => number | null
  /** Whether the store fails at the moment; `damaged`: it will until the next start. */
  readonly storeState: () => 'serves' | 'fails' | 'damaged'
}

export class WakeLoop {
  readonly #parts: WakeLoopParts
  #timer: Timer | null = null
  #restMs = 0
  #stopped = false

  constructor(parts: WakeLoopParts) {
    this.#parts = parts
  }

  /** What is due and could not be locked is held by another server: looking again at once would not help. */
  committed({ transitions, now }: Committed): void {
    const next = this.#parts.groupCommit.nextWakeAt
    const isHeld = this.#parts.isShared && transitions.length === 0 && next !== null && next <= now
    this.#restMs = isHeld ? Math.min(MAX_REST_MS, Math.max(MIN_REST_MS, 2 * this.#restMs)) : 0
  }

  arm(): void {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#stopped) return
    const { host, groupCommit, signOfLifeMs, storeState } = this.#parts
    const now = this.#parts.now()
    const next = groupCommit.nextWakeAt
    let sleepMs = MAX_SLEEP_MS
    if (next !== null) sleepMs = Math.min(sleepMs, Math.max(this.#restMs, remaining(next, now)))
    sleepMs = Math.min(sleepMs, signOfLifeMs(now) ?? MAX_SLEEP_MS)
    const state = storeState()
    if (state !== 'serves') sleepMs = state === 'fails' ? RETRY_STORE_MS : MAX_SLEEP_MS
    // Idle, as far as `idleMs` reaches: it knows what this timer is for.
    this.#timer = host.setTimer(Math.max(0, sleepMs), () => this.#wake(), ALWAYS_IDLE)
  }

  /** No timer is set any more; one that is set stays until `cancel`. */
  stop(): void {
    this.#stopped = true
  }

  cancel(): void {
    this.#timer?.cancel()
  }

  #wake(): void {
    const { groupCommit, isShared, log } = this.#parts
    groupCommit.run(isShared ? this.#vouch() : { name: 'wake', run: () => {} }).catch((error: unknown) => {
      if (!(error instanceof OjsError)) log.error({ err: error }, 'wake loop failed with an internal error')
      this.arm()
    })
  }

  /** An open call is a sign of life that only this server knows of: it is written down for the others. */
  #vouch(): Command<void> {
    const calling = this.#parts.callingWorkers()
    const everyMs = Math.min(CALL_SEEN_EVERY_MS, this.#parts.workerTimeoutMs / 3)
    return {
      name: 'wake',
      needs: { workers: calling },
      run: async (unit) => {
        for (const id of calling) {
          const worker = unit.worker(id)
          if (worker !== null && elapsed(worker.lastSeenAt, unit.now) >= everyMs) await touch(unit, id)
        }
      },
    }
  }
}
