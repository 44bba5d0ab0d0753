/**
 * Every change goes through here, one transaction at a time.
 *
 *   commands of this turn ─┐
 *                          ├→ settle what is due → decide each command → save all → commit → answer all
 *   the wake loop ─────────┘
 *
 * Commands that arrive in one turn of the event loop share one transaction (group commit) and are answered after it.
 * Time goes first: before any command is decided, everything due is settled with the same `now`, so no command and no
 * read ever meets a state later than its deadline allows. If more is due than fits one transaction, the commands wait.
 *
 * A command that is refused is undone alone; only that its worker was heard is kept. A command that breaks (a bug) makes
 * the whole group roll back; the others are then tried one by one, so that only the broken one fails. So is the chore that
 * goes with each sign of life. If another server was faster with a row, the group is decided again on what is there now.
 * So it is when the process stood still in the middle: an attempt must not begin at an instant that is long past. If the
 * store cannot serve, every command of the group is refused with that reason.
 */
import {
  elapsed,
  instant,
  isDue,
  jobEvent,
  OjsError,
  type Host,
  type Instant,
  type Moment,
  type Millis,
} from '@curfew/core'
import { RowsMoved, StoreDamaged, StoreUnavailable, type Life, type Store } from '../../store/store.ts'
import { decideEach, needsOf, sizeOf, type Ahead, type Command, type OnRefusal, type Outcome } from './command.ts'
import { ServingFailed, type Committed, type Serving } from './feature.ts'
import type { LongDocs } from './long-docs.ts'
import type { Needs } from './needs.ts'
import { nextTurn } from './turns.ts'
import { Unit } from './unit.ts'
import { MAX_DUE, wakeStep, type WakePorts } from './wake.ts'
import type { Judged } from './server-liveness.ts'

interface Waiting {
  readonly command: Command<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** Hears what was decided while it is on its way to the disk. */
  readonly hearAhead?: (decided: Ahead<unknown>) => void
}

/** How a group is tried. */
interface Try {
  /** How old its `now` may be when it is saved. */
  readonly maxAgeMs: number
  /** Whether it serves polls that wait. */
  readonly serves: boolean
  /** Whether the store may answer from memory and check at the end. */
  readonly relies: boolean
}

interface Decided {
  readonly outcomes: readonly Outcome[]
  readonly postponed: boolean
  readonly durable: Promise<void>
}

export interface GroupCommitPorts {
  readonly store: Store
  readonly host: Host
  readonly moment: () => Moment
  /** Judges the signs of life: times in which no server was listening, and whether to give one now. */
  readonly judge: (life: Life, now: Instant) => Judged
  readonly workerTimeoutMs: Millis
  readonly deadLetterMax: number
  readonly longDocs: LongDocs
  readonly wake: WakePorts
  /** Serves polls that wait within one transaction. */
  readonly serving: () => Serving
  readonly onBrokenLook: (error: unknown) => void
  /** What is done with every sign of life, after the commands. */
  readonly chore: () => Command<void> | null
  readonly onBrokenChore: (error: unknown) => void
  /** It is true from here on for whatever is decided next. */
  readonly onCommit: (committed: Committed) => void
  /** It may be told: nothing can take it back. */
  readonly onDurable: (committed: Committed) => void
  /** The store failed (or works again: null). */
  readonly onTrouble: (error: unknown) => void
}

/** No transaction takes more commands, or settles more due rows, than this: others want their turn. */
const MAX_COMMANDS = 500
/** For so many turns of the event loop a group gathers at most, and for so long: where turns are slow, few are enough. */
const MAX_TURNS = 8
const MAX_GATHERING_MS = 4
/** How often a group is decided again because another server was faster. */
const MAX_TRIES = 10
/** How old the `now` of a group may be when it is saved; twice as old with each try, since perhaps it takes that long. */
const MAX_AGE_MS = 1_000

/** What was decided is of a time that is past: the process stood still, or the way to the database was blocked. */
class Outdated extends Error {}

export class GroupCommit {
  readonly #ports: GroupCommitPorts
  #waiting: Waiting[] = []
  #scheduled = false
  #running: Promise<void> = Promise.resolve()
  #answering: Promise<void> = Promise.resolve()
  /** Groups on their way to the disk. */
  #underway = 0
  #nextWakeAt: Instant | null = null
  #knowsNext = false
  #closed = false
  /** Once the data is known to be damaged, nothing more is written. */
  #damage: StoreDamaged | null = null

  constructor(ports: GroupCommitPorts) {
    this.#ports = ports
  }

  /** Runs a command in the next group; answers after its transaction has been committed. */
  run<T>(command: Command<T>, onRefusal = HEARD_BY_NONE): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#enter({ command, resolve: resolve as (value: unknown) => void, reject: telling(onRefusal, reject) })
    })
  }

  /** As `run`, but tells what was decided at once: the caller can prepare the answer while the disk is written. */
  runAhead<T>(command: Command<T>, onRefusal = HEARD_BY_NONE): Promise<Ahead<T>> {
    return new Promise<Ahead<T>>((resolve, reject) => {
      const hearAhead = resolve as (decided: Ahead<unknown>) => void
      this.#enter({ command, resolve: HAS_HEARD, reject: telling(onRefusal, reject), hearAhead })
    })
  }

  #enter(waiting: Waiting): void {
    if (this.#closed) {
      waiting.reject(new OjsError('unavailable', 'The server is stopping.'))
      return
    }
    if (this.#damage !== null) {
      waiting.reject(refusalFor(this.#damage))
      return
    }
    this.#waiting.push(waiting)
    this.#schedule()
  }

  /** Answers once nothing is due any more; costs nothing when nothing is (and no other server could have written). */
  async settled(): Promise<void> {
    if (this.#closed) return
    if (this.#ports.store.shared) await this.#lookAhead(this.#ports.store)
    if (!this.#knowsNext || isDue(this.#nextWakeAt, this.#ports.moment().now)) await this.run(NOTHING)
  }

  /** Without other writers, the last commit told when something is due next. */
  #knowsNothingDue(now: Instant): boolean {
    return !this.#ports.store.shared && this.#knowsNext && !isDue(this.#nextWakeAt, now)
  }

  /** Another server wrote a row that is due then; null: at an unknown time. True if that is earlier than what was known. */
  hears(wakeAt: Instant | null): boolean {
    if (wakeAt === null) this.#knowsNext = false
    else if (this.#nextWakeAt === null || wakeAt < this.#nextWakeAt) this.#nextWakeAt = wakeAt
    else return false
    return true
  }

  /** When the next row wants to be woken, as of the last commit; at once, if the store could not say. */
  get nextWakeAt(): Instant | null {
    return this.#knowsNext ? this.#nextWakeAt : instant(0)
  }

  /** Nothing passes any more: what is on its way ends by itself, whatever comes is refused. */
  shut(damage: StoreDamaged): void {
    this.#damage ??= damage
  }

  /** Finishes what is waiting, then refuses. */
  async close(): Promise<void> {
    while (this.#waiting.length > 0 || this.#scheduled) await this.#drained()
    this.#closed = true
    await this.#running
    await this.#answering
  }

  async #drained(): Promise<void> {
    await this.#turn()
    await this.#running
  }

  /** Collects commands until a turn adds none, for MAX_TURNS at most. */
  async #gather(): Promise<void> {
    const { host } = this.#ports
    const endsAt = host.monotonicMs() + MAX_GATHERING_MS
    let seen = 0
    for (let turns = 0; turns < MAX_TURNS && seen < this.#waiting.length && seen < MAX_COMMANDS; turns += 1) {
      if (turns > 0 && host.monotonicMs() >= endsAt) return
      seen = this.#waiting.length
      await this.#turn()
    }
  }

  #turn(): Promise<void> {
    return nextTurn(this.#ports.host)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#running = this.#running.then(() => this.#group())
  }

  async #group(): Promise<void> {
    // While a group goes to the disk the next one is read and gathers, and is the larger for it. Deciding ahead of the
    // disk was slower: the groups were smaller, and every group costs a commit.
    if (this.#underway > 0) {
      await this.#answering
      await this.#turn() // the answers leave in this one; in the next their callers may be back
    }
    await this.#gather()
    this.#scheduled = false
    const group = this.#waiting.splice(0, fitting(this.#waiting))
    const left = await this.#together(group)
    this.#waiting.unshift(...left)
    if (this.#waiting.length > 0) this.#schedule()
  }

  /** Runs a group; returns the commands that must wait because time alone filled the transaction. */
  async #together(group: readonly Waiting[], chore = this.#ports.chore()): Promise<readonly Waiting[]> {
    try {
      const { outcomes, postponed, durable } = await this.#untilDecided(group, chore)
      const answered = postponed ? [] : group
      // Answers wait for the disk, on a thread of its own; the sockets are served meanwhile.
      this.#underway += 1
      const safe = durable.then(
        () => {
          this.#underway -= 1
          settleAll(answered, outcomes)
        },
        (error: unknown) => {
          this.#knowsNext = false
          this.#underway -= 1
          throw this.#refuse(answered, error)
        },
      )
      this.#answering = safe.catch(() => {})
      tellAhead(answered, outcomes, safe)
      return postponed ? group : []
    } catch (error) {
      this.#knowsNext = false
      if (error instanceof StoreUnavailable) {
        this.#refuse(group, error)
        return []
      }
      if (group.length <= 1 && chore === null) {
        for (const { reject } of group) reject(error)
        return []
      }
      for (const alone of group) await this.#retryAlone(alone)
      if (chore !== null)
        await this.#retryAlone({ command: chore, resolve: () => {}, reject: this.#ports.onBrokenChore })
      return []
    }
  }

  #refuse(group: readonly Waiting[], error: unknown): OjsError {
    this.#ports.onTrouble(error)
    const refusal = refusalFor(error)
    for (const { reject } of group) reject(refusal)
    return refusal
  }

  async #untilDecided(group: readonly Waiting[], chore: Command<void> | null): Promise<Decided> {
    let [serves, relies] = [true, true]
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#served(group, chore, { maxAgeMs: MAX_AGE_MS * 2 ** (tries - 1), serves, relies })
      } catch (error) {
        if (error instanceof ServingFailed) {
          this.#ports.onBrokenLook(error.cause)
          serves = false
          continue
        }
        if (!(error instanceof RowsMoved || error instanceof Outdated)) throw error
        relies = false
        if (tries === MAX_TRIES) throw new StoreUnavailable('other servers are working on the same rows', error)
      }
    }
  }

  async #retryAlone(waiting: Waiting): Promise<void> {
    let left = await this.#together([waiting], null)
    while (left.length > 0) left = await this.#together(left, null)
  }

  /** Asks the store when something is due next, because another server may have written since. */
  async #lookAhead(store: Store): Promise<void> {
    try {
      this.#nextWakeAt = await store.nextWakeAt()
      this.#knowsNext = true
    } catch {
      this.#knowsNext = false
    }
  }

  async #served(group: readonly Waiting[], chore: Command<void> | null, how: Try): Promise<Decided> {
    const serving = this.#ports.serving()
    try {
      const decided = await this.#transaction(group, chore, serving, how)
      serving.answer(decided.durable, refusalFor)
      return decided
    } catch (error) {
      serving.undo()
      throw error
    }
  }

  async #transaction(
    group: readonly Waiting[],
    chore: Command<void> | null,
    serving: Serving,
    { maxAgeMs, serves, relies }: Try,
  ): Promise<Decided> {
    const { store, host, moment, judge, workerTimeoutMs, deadLetterMax, longDocs } = this.#ports
    const at = moment()
    const unit = new Unit(at, workerTimeoutMs, host, longDocs)
    const mostDue = this.#knowsNothingDue(at.now) ? 0 : MAX_DUE
    const size = group.reduce((sum, { command }) => sum + sizeOf(command), 0)
    const { value, events, durable, nextWakeAt } = await store.transaction(async (tx) => {
      const needs = neededBy(group, serves ? serving : null)
      const { life, ...due } = await unit.open(tx, needs, mostDue)
      const { outages, stamp } = judge(life, at.now)
      unit.credit(outages, stamp === null ? life.aliveAt : null)
      const more = await wakeStep(unit, due, this.#ports.wake)
      const outcomes = more
        ? []
        : await decideEach(
            unit,
            group.map(({ command }) => command),
          )
      if (!more && stamp !== null && chore !== null) await decideEach(unit, [chore])
      await this.#ports.wake.follow(unit)
      if (!more && serves) {
        await serving.serve(unit)
        await this.#ports.wake.follow(unit)
      }
      if (unit.transitions.some(({ job }) => job?.deadLetter === true)) await trimDeadLetters(unit, deadLetterMax)
      const stamps = stamp !== null || (store.clock === null && unit.writesUndated)
      if (stamps) unit.stampAlive(stamp?.outages ?? null)
      if (elapsed(at.now, moment().now) > maxAgeMs) throw new Outdated('the process stood still')
      return {
        value: { outcomes, postponed: more, life: { aliveAt: stamps ? at.now : life.aliveAt, outages } },
        changes: await unit.saveButTheLast(),
        isAlone: size <= 1 && this.#waiting.length === 0,
      }
    }, relies)
    this.#knowsNext = nextWakeAt !== undefined
    this.#nextWakeAt = nextWakeAt ?? null
    const committed = {
      transitions: unit.transitions,
      events,
      live: unit.live,
      orders: unit.orders,
      ranOut: unit.ranOut,
      refused: unit.refused,
      moreInInbox: unit.moreInInbox,
      followUps: unit.followUps,
      ready: serving.rest(unit),
      commands: value.postponed ? 0 : size,
      now: at.now,
      life: value.life,
    }
    this.#ports.onCommit(committed)
    const told = durable.then(() => {
      this.#ports.onTrouble(null)
      this.#ports.onDurable(committed)
    })
    return { ...value, durable: told }
  }
}

/** What callers are told when the store cannot serve. */
export function refusalFor(error: unknown): OjsError {
  if (error instanceof StoreDamaged)
    return new OjsError('storage_damaged', `The server stores nothing any more: ${error.reason}.`, { cause: error })
  const reason = error instanceof StoreUnavailable ? error.reason : 'an unexpected error'
  return new OjsError('unavailable', `The server cannot store anything at the moment: ${reason}.`, { cause: error })
}

const HEARD_BY_NONE: OnRefusal = () => {}
const HAS_HEARD = (): void => {}

const telling =
  (onRefusal: OnRefusal, reject: OnRefusal): OnRefusal =>
  (error) => {
    reject(error)
    // By itself: should it break, the others of the group are to have their answers all the same.
    queueMicrotask(() => {
      onRefusal(error)
    })
  }

/**
 * What the commands need, and the open calls that these commands may serve. A command that names a type brings jobs of it.
 * Rows of workers are then locked with the first round trip, in one order, and before any row of a job.
 */
function neededBy(group: readonly Waiting[], serving: Serving | null): Needs {
  const commands = group.map(({ command }) => command)
  const bringing = commands.filter(({ needs }) => (needs?.types?.length ?? 0) > 0)
  if (serving === null || bringing.length === 0) return needsOf(commands)
  const { queues = [] } = needsOf(bringing)
  const jobs = bringing.reduce((sum, command) => sum + sizeOf(command), 0)
  return needsOf([...commands, ...serving.foreseen(queues, jobs)])
}

/** How many of the waiting commands go together: as many as one transaction takes, but always the first. */
function fitting(waiting: readonly Waiting[]): number {
  let size = 0
  for (const [index, { command }] of waiting.entries()) {
    size += sizeOf(command)
    if (size > MAX_COMMANDS) return Math.max(1, index)
  }
  return waiting.length
}

const NOTHING: Command<void> = { name: 'settle', run: () => {} }

/** The dead-letter list is bounded: the oldest make room. */
async function trimDeadLetters(unit: Unit, keep: number): Promise<void> {
  unit.begin()
  for (const job of await unit.deadLettersBeyond(keep, MAX_COMMANDS)) {
    unit.apply({ before: job, job: null, events: [jobEvent('dead_letter.pruned', job, unit.now)] })
  }
}

function tellAhead(group: readonly Waiting[], outcomes: readonly Outcome[], durable: Promise<void>): void {
  for (const [index, { hearAhead }] of group.entries()) {
    const outcome = outcomes[index]
    if (hearAhead !== undefined && outcome?.ok === true) hearAhead({ value: outcome.value, durable })
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
