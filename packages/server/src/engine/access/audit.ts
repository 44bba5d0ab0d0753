/**
 * Notes who changed what. A call that is noted gets an engine whose first command also writes the note, so that change and
 * note become durable together; nothing else of the engine differs. A call that changes something without a command of its
 * own is noted by one more command, before it is answered.
 */
import {
  actionsKeptSince,
  OPERATOR_ACTION,
  operatorEvent,
  readDoc,
  type Instant,
  type OperatorAction,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Engine } from '../engine.ts'
import type { Unit } from '../kernel/unit.ts'

export type Noted = Omit<OperatorAction, 'at'>

/** How many old notes are removed at a time, and after how many new ones. */
const PRUNED_AT_A_TIME = 200
const PRUNED_EVERY = 100

export class Audit {
  readonly #engine: Engine
  #written = 0
  #ids = 0

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Does the work with an engine that writes the note. Work that is refused leaves none. */
  async noting<T>(noted: Noted, work: (engine: Engine) => Promise<T>, isDone: (done: T) => boolean): Promise<T> {
    const state: { phase: 'open' | 'claimed' | 'written' } = { phase: 'open' }
    const carrying = async <R>(command: Command<R>, run: (command: Command<R>) => Promise<R>): Promise<R> => {
      if (state.phase !== 'open') return run(command)
      state.phase = 'claimed'
      try {
        const result = await run({ ...command, run: (unit) => this.#alongside(unit, noted, command) })
        state.phase = 'written'
        return result
      } catch (error) {
        state.phase = 'open'
        throw error
      }
    }
    const done = await work(withRun(this.#engine, carrying))
    if (state.phase !== 'written' && isDone(done))
      await this.#engine.run({
        name: 'audit',
        run: (unit) => {
          this.#note(unit, noted)
        },
      })
    this.#written += 1
    if (this.#written % PRUNED_EVERY === 0) this.#prune()
    return done
  }

  async #alongside<R>(unit: Unit, noted: Noted, command: Command<R>): Promise<R> {
    const result = await command.run(unit)
    this.#note(unit, noted)
    return result
  }

  #note(unit: Unit, noted: Noted): void {
    const action: OperatorAction = { at: unit.now, ...noted }
    unit.emit(operatorEvent(action))
    unit.addDoc(OPERATOR_ACTION, this.#nextId(unit.now), action)
  }

  /** Grows with time, and on one server within a millisecond. */
  #nextId(now: Instant): string {
    this.#ids += 1
    const chance = Math.floor(this.#engine.random() * 0x1_0000_0000)
    return [now, this.#ids % 0x1_0000, chance]
      .map((part, place) => part.toString(16).padStart([12, 4, 8][place] ?? 0, '0'))
      .join('-')
  }

  /** Removes notes that are older than they need be kept. */
  #prune(): void {
    const prune = async (): Promise<void> => {
      const oldest = await this.#engine.look((reads) => reads.docs(OPERATOR_ACTION.kind, '', null, PRUNED_AT_A_TIME))
      const since = actionsKeptSince(this.#engine.now())
      const old = oldest.filter((doc) => readDoc<OperatorAction>(doc).at < since).map(({ id }) => id)
      if (old.length === 0) return
      await this.#engine.run({
        name: 'audit',
        needs: { docs: old.map((id) => ({ kind: OPERATOR_ACTION.kind, id })) },
        run: (unit) => {
          for (const id of old) unit.putDoc(OPERATOR_ACTION, id, null)
        },
      })
    }
    prune().catch(() => {
      // The store cannot serve; a later note tries again.
    })
  }
}

type Carrying = <R>(command: Command<R>, run: (command: Command<R>) => Promise<R>) => Promise<R>

/** The same engine but for `run`. Its other methods keep the engine itself as `this`: it has private members. */
function withRun(engine: Engine, carrying: Carrying): Engine {
  const run: Engine['run'] = (command, onRefusal) => carrying(command, (one) => engine.run(one, onRefusal))
  const runAhead: Engine['runAhead'] = async (command, onRefusal) => ({
    value: await run(command, onRefusal),
    durable: Promise.resolve(),
  })
  return new Proxy(engine, {
    get(target, name) {
      if (name === 'run') return run
      if (name === 'runAhead') return runAhead
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
