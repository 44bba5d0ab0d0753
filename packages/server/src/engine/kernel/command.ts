/**
 * A command: one change, decided in memory on the rows it names, and saved with the other commands of its group. The group
 * itself (transaction, clock, answers) is the business of `group-commit.ts`.
 */
import { OjsError, type DocName } from '@curfew/core'
import type { Fingerprint, Needs } from './needs.ts'
import type { Unit } from './unit.ts'
import { touchLoaded } from '../workers/workers.ts'

export interface Command<T> {
  /** For counting and logging: enqueue, ack, … */
  readonly name: string
  /** The rows it will look at, as far as they are known before it runs; they are loaded for the whole group at once. */
  readonly needs?: Needs
  /** The worker that asks, one of those it needs. That it asked is a sign of its life, even if it is refused. */
  readonly by?: string | undefined
  /** How many it counts for when it is made of several; one, if it is left out. */
  readonly size?: number
  run(unit: Unit): T | Promise<T>
}

/** What was decided. It may be used to prepare an answer, and must not leave the house before `durable`. */
export interface Ahead<T> {
  readonly value: T
  readonly durable: Promise<void>
}

/** What became of a command: its answer, or why it was refused. */
export type Outcome<T = unknown> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: OjsError }

/** Hears of a refusal beside the caller. Every command has one, so it costs nothing before there is a refusal. */
export type OnRefusal = (error: unknown) => void

export const sizeOf = ({ size = 1 }: Command<unknown>): number => size

/** What several commands need, each row once. */
export function needsOf(commands: readonly Command<unknown>[]): Needs {
  const docs = new Map<string, DocName>()
  const unique: Fingerprint[] = []
  const [workers, jobs, added, queues, types, notices, names, held] = [
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
  ]
  const add = (into: Set<string>, names: readonly string[] | undefined): void => {
    if (names !== undefined) for (const name of names) into.add(name)
  }
  for (const { needs } of commands) {
    if (needs === undefined) continue
    add(workers, needs.workers)
    add(jobs, needs.jobs)
    add(added, needs.added)
    add(queues, needs.queues)
    add(types, needs.types)
    add(notices, needs.notices)
    add(names, needs.names)
    add(held, needs.held)
    if (needs.unique !== undefined) unique.push(...needs.unique)
    if (needs.docs !== undefined) for (const name of needs.docs) docs.set(`${name.kind} ${name.id}`, name)
  }
  return {
    workers: [...workers],
    jobs: [...jobs],
    added: [...added],
    queues: [...queues],
    types: [...types],
    notices: [...notices],
    docs: [...docs.values()],
    names: [...names],
    held: [...held],
    unique,
  }
}

/**
 * The parts of a command that is made of several: each is decided after the one before it; a refusal undoes only its own part.
 * What was decided before can no longer be undone by the whole, so from here on the whole must not be refused.
 */
export async function decideEach<T>(unit: Unit, commands: readonly Command<T>[]): Promise<Outcome<T>[]> {
  const outcomes: Outcome<T>[] = []
  for (const command of commands) {
    const pause = unit.pace.step()
    if (pause !== undefined) await pause
    const outcome = decide(unit, command)
    outcomes.push(outcome instanceof Promise ? await outcome : outcome)
  }
  return outcomes
}

/** Decides a command; waits only if the command does, or if a row it needs has to be found again. */
function decide<T>(unit: Unit, command: Command<T>): Outcome<T> | Promise<Outcome<T>> {
  unit.begin()
  if (command.needs !== undefined && unit.misses(command.needs)) return decideLater(unit, command, command.needs)
  try {
    const value = command.run(unit)
    if (!(value instanceof Promise)) return decided(unit, command, { ok: true, value })
    return value.then(
      (answer) => decided(unit, command, { ok: true, value: answer }),
      (error: unknown) => decided(unit, command, refused(unit, error)),
    )
  } catch (error) {
    return decided(unit, command, refused(unit, error))
  }
}

/** Whatever became of it: who asked is alive. */
function decided<T>(unit: Unit, { by }: Command<T>, outcome: Outcome<T>): Outcome<T> {
  if (by !== undefined) touchLoaded(unit, by)
  return outcome
}

async function decideLater<T>(unit: Unit, command: Command<T>, needs: Needs): Promise<Outcome<T>> {
  await unit.load(needs)
  return decide(unit, command)
}

function refused(unit: Unit, error: unknown): Outcome<never> {
  if (!(error instanceof OjsError) || unit.spoiled) throw error
  unit.revert()
  return { ok: false, error }
}
