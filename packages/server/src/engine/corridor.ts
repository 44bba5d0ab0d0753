/**
 * The corridor every change walks through, one transaction at a time.
 *
 *   commands of this turn ─┐
 *                          ├→ settle what is due → decide each command → save all → commit → answer all
 *   the wake loop ─────────┘
 *
 * Commands that arrive in one turn of the event loop share one transaction (group commit) and are answered after it.
 * Time goes first: before any command is decided, everything due is settled with the same `now`, so no command and no
 * read ever meets a state later than its deadline allows. If more is due than fits one transaction, the commands wait.
 *
 * A command that is refused is undone alone. A command that breaks (a bug) makes the whole group roll back; the others
 * are then tried one by one, so that only the broken one fails. If the store cannot serve, everyone is told so.
 */
import {
  instant,
  isDue,
  jobEvent,
  type NewEvent,
  OjsError,
  type Host,
  type Instant,
  type Moment,
  type Outage,
  type Millis,
  type Transition,
} from '@curfew/core'
import { StoreUnavailable, type Store, type StoredEvent } from '../store/store.ts'
import { Unit } from './unit.ts'
import { wakeStep } from './wake.ts'

export interface Command<T> {
  /** For counting and logging: enqueue, ack, … */
  readonly name: string
  run(unit: Unit): Promise<T>
}

interface Waiting {
  readonly command: Command<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown }

/** What a commit made true, for those who count, notify and re-arm. */
export interface Committed {
  readonly transitions: readonly Transition[]
  readonly events: readonly StoredEvent[]
  /** For live streams only. */
  readonly live: readonly NewEvent[]
  readonly commands: number
  readonly now: Instant
}

export interface CorridorPorts {
  readonly store: Store
  readonly host: Host
  readonly moment: () => Moment
  /** Times in which no server was listening, up to this instant. */
  readonly outages: (now: Instant) => readonly Outage[]
  readonly workerTimeoutMs: Millis
  readonly deadLetterMax: number
  readonly isPolling: (workerId: string) => boolean
  readonly shouldStamp: (now: Instant) => boolean
  readonly onCommit: (committed: Committed) => void
  /** The store failed (or works again: null). */
  readonly onTrouble: (error: unknown) => void
}

/** No transaction takes more commands, or settles more due rows, than this: others want their turn. */
const MOST_COMMANDS = 500

export class Corridor {
  readonly #ports: CorridorPorts
  #waiting: Waiting[] = []
  #scheduled = false
  #running: Promise<void> = Promise.resolve()
  #nextWakeAt: Instant | null = null
  #knowsNext = false
  #closed = false

  constructor(ports: CorridorPorts) {
    this.#ports = ports
  }

  /** Runs a command in the next group; answers after its transaction has been committed. */
  run<T>(command: Command<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new OjsError('unavailable', 'The server is stopping.'))
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ command, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Answers once nothing is due any more; costs nothing when nothing is. */
  async settled(): Promise<void> {
    if (!this.#closed && (!this.#knowsNext || isDue(this.#nextWakeAt, this.#ports.moment().now)))
      await this.run(NOTHING)
  }

  /** When the next row wants to be woken, as of the last commit; at once, if the store could not say. */
  get nextWakeAt(): Instant | null {
    return this.#knowsNext ? this.#nextWakeAt : instant(0)
  }

  /** Finishes what is waiting, then refuses. */
  async close(): Promise<void> {
    while (this.#waiting.length > 0 || this.#scheduled) await this.#drained()
    this.#closed = true
    await this.#running
  }

  async #drained(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#ports.host.defer(resolve)
    })
    await this.#running
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#ports.host.defer(() => {
      this.#running = this.#running.then(() => this.#group())
    })
  }

  async #group(): Promise<void> {
    this.#scheduled = false
    const group = this.#waiting.splice(0, MOST_COMMANDS)
    const left = await this.#together(group)
    this.#waiting.unshift(...left)
    if (this.#waiting.length > 0) this.#schedule()
  }

  /** Runs a group; returns the commands that must wait because time alone filled the transaction. */
  async #together(group: readonly Waiting[]): Promise<readonly Waiting[]> {
    try {
      const { outcomes, postponed } = await this.#transaction(group)
      if (postponed) return group
      settleAll(group, outcomes)
      return []
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        this.#ports.onTrouble(error)
        const refusal = new OjsError(
          'unavailable',
          `The server cannot store anything at the moment: ${error.reason}.`,
          { cause: error },
        )
        for (const { reject } of group) reject(refusal)
        return []
      }
      if (group.length <= 1) {
        for (const { reject } of group) reject(error)
        return []
      }
      for (const alone of group) await this.#retryAlone(alone)
      return []
    }
  }

  async #retryAlone(waiting: Waiting): Promise<void> {
    let left = await this.#together([waiting])
    while (left.length > 0) left = await this.#together(left)
  }

  /** What was committed stays committed, whether or not the store can say what comes next. */
  async #lookAhead(store: Store): Promise<void> {
    try {
      this.#nextWakeAt = await store.nextWakeAt()
      this.#knowsNext = true
    } catch {
      this.#knowsNext = false
    }
  }

  async #transaction(group: readonly Waiting[]): Promise<{ outcomes: Outcome[]; postponed: boolean }> {
    const { store, moment, outages, workerTimeoutMs, deadLetterMax } = this.#ports
    const at = moment()
    const { unit, outcomes, postponed } = await store.transaction(async (tx) => {
      const unit = new Unit(tx, at, outages(at.now), workerTimeoutMs)
      const more = await wakeStep(unit, this.#ports.isPolling)
      const outcomes: Outcome[] = []
      if (!more) for (const { command } of group) outcomes.push(await decide(unit, command))
      if (unit.transitions.some(({ job }) => job?.deadLetter === true)) await trimDeadLetters(unit, deadLetterMax)
      if (this.#ports.shouldStamp(at.now)) unit.stampAlive()
      await unit.flush()
      return { unit, outcomes, postponed: more }
    })
    await this.#lookAhead(store)
    this.#ports.onTrouble(null)
    this.#ports.onCommit({
      transitions: unit.transitions,
      events: unit.stored,
      live: unit.live,
      commands: outcomes.length,
      now: at.now,
    })
    return { outcomes, postponed }
  }
}

const NOTHING: Command<void> = { name: 'settle', run: () => Promise.resolve() }

async function decide(unit: Unit, command: Command<unknown>): Promise<Outcome> {
  unit.begin()
  try {
    const value = await command.run(unit)
    await unit.deliverNotices()
    return { ok: true, value }
  } catch (error) {
    if (!(error instanceof OjsError) || unit.spoiled) throw error
    unit.revert()
    return { ok: false, error }
  }
}

/** The dead-letter list is bounded: the oldest make room. */
async function trimDeadLetters(unit: Unit, keep: number): Promise<void> {
  unit.begin()
  for (const job of await unit.deadLettersBeyond(keep, MOST_COMMANDS)) {
    unit.apply({ before: job, job: null, events: [jobEvent('dead_letter.pruned', job, unit.now)] })
  }
}

function settleAll(group: readonly Waiting[], outcomes: readonly Outcome[]): void {
  for (const [index, { resolve, reject }] of group.entries()) {
    const outcome = outcomes[index]
    if (outcome === undefined) reject(new Error('a command was left without an outcome'))
    else if (outcome.ok) resolve(outcome.value)
    else reject(outcome.error)
  }
}
