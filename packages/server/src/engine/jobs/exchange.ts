/**
 * EXCHANGE: all that a worker has to say and to ask, in one round trip and one transaction. Reports stand or fall alone
 * and come first, so that what they free can be handed out again; then the beat, then the fetch.
 *
 * A fetch waits for work only where nothing else is held back by it: neither answers to reports, nor orders to stop. With
 * `listen` the call is held open for orders as well, however few jobs it asks for.
 */
import { broken, type Job } from '@curfew/core'
import { decideEach, needsOf, type Command, type Outcome } from '../kernel/command.ts'
import type { JobsContext } from './context.ts'
import { claim, fetchJobs, withoutOrders, type FetchRequest, type Handed } from './fetch.ts'
import { beat, type BeatAnswer, type BeatReport } from '../workers/heartbeat.ts'
import { lookFor, waitForOrders, type Listening, type Orders } from '../workers/orders.ts'
import { ack, nack, type Ack, type Nack } from './reports.ts'
import { saveCheckpoint, type CheckpointCall, type Saved } from './signs.ts'
import type { Unit } from '../kernel/unit.ts'
import { touch } from '../workers/workers.ts'

export interface Exchange {
  readonly workerId: string
  readonly checkpoints: readonly CheckpointCall[]
  readonly acks: readonly Ack[]
  readonly nacks: readonly Nack[]
  readonly beat: BeatReport | null
  readonly fetch: FetchRequest | null
  readonly listen: Listening | null
}

/** Outcomes in the order of the reports. */
export interface Exchanged {
  readonly checkpoints: readonly Outcome<Saved>[]
  readonly acks: readonly Outcome<Job>[]
  readonly nacks: readonly Outcome<Job>[]
  readonly beat: BeatAnswer | null
  readonly handed: readonly Handed[]
  /** Null: there is nothing to say, or it does not listen. */
  readonly orders: Orders | null
}

/** `gone` is aborted when the asker hangs up. */
export async function exchange(context: JobsContext, asked: Exchange, gone: AbortSignal): Promise<Exchanged> {
  const { fetch, listen } = asked
  const reports = asked.checkpoints.length + asked.acks.length + asked.nacks.length
  if (fetch === null || fetch.waitMs === 0 || reports > 0) return atOnce(context, asked)
  if (asked.beat === null) {
    if (listen === null) return { ...NOTHING, handed: await fetchJobs(context, fetch, gone) }
    return { ...NOTHING, ...(await waitForOrders(context, fetch, listen, gone)) }
  }
  const done = await atOnce(context, { ...asked, fetch: null })
  if (done.orders?.isUrgent === true || done.beat === null || (listen === null && done.beat.state !== 'running'))
    return done
  if (listen !== null) return { ...done, ...(await waitForOrders(context, fetch, listen, gone)) }
  const waitMs = done.beat.stop.length > 0 ? 0 : fetch.waitMs
  return { ...done, handed: await fetchJobs(context, { ...fetch, waitMs }, gone) }
}

const NOTHING: Exchanged = { checkpoints: [], acks: [], nacks: [], beat: null, handed: [], orders: null }

async function atOnce(context: JobsContext, asked: Exchange): Promise<Exchanged> {
  const done = await context.run(together(context, asked))
  for (const [name, outcomes] of [
    ['checkpoint', done.checkpoints],
    ['ack', done.acks],
    ['nack', done.nacks],
  ] as const) {
    for (const outcome of outcomes) if (!outcome.ok) context.noteRefusal(name, outcome.error, asked.workerId)
  }
  // A worker that is not running must not be given jobs by a poll it left open.
  if (done.beat !== null && done.beat.state !== 'running') context.polls.dismissFetches(asked.workerId)
  return done
}

function together(context: JobsContext, asked: Exchange): Command<Exchanged> {
  const checkpoints = asked.checkpoints.map((call) => saveCheckpoint(context, call))
  const acks = asked.acks.map((report) => ack(context, report))
  const nacks = asked.nacks.map((report) => nack(context, report))
  const life = signOfLife(asked.workerId)
  const beats = asked.beat === null ? null : beat(context, asked.beat)
  const looks =
    asked.listen !== null
      ? lookFor(context, asked.fetch, asked.listen, true)
      : asked.fetch !== null
        ? withoutOrders(claim(context, asked.fetch))
        : null
  const parts = [...checkpoints, ...acks, ...nacks, life, beats, looks].filter((part) => part !== null)
  return {
    name: 'exchange',
    needs: needsOf(parts),
    size: parts.length,
    run: async (unit) => {
      const reported = {
        checkpoints: await decideEach(unit, checkpoints),
        acks: await decideEach(unit, acks),
        nacks: await decideEach(unit, nacks),
      }
      await certain(unit, life)
      const told = beats === null ? null : await certain(unit, beats)
      const runs = told === null || told.state === 'running'
      const found = looks === null || (!runs && asked.listen === null) ? null : await certain(unit, looks)
      return { ...reported, beat: told, handed: found?.claimed?.handed ?? [], orders: found?.orders ?? null }
    },
  }
}

/** Any call of a worker counts, even if all it brings is refused. */
function signOfLife(workerId: string): Command<void> {
  return { name: 'exchange', needs: { workers: [workerId] }, run: (unit) => touch(unit, workerId) }
}

/** A part that is never refused; if it were, the reports before it could not be undone. */
async function certain<T>(unit: Unit, part: Command<T>): Promise<T> {
  const [outcome] = await decideEach(unit, [part])
  if (outcome?.ok !== true) throw broken(`${part.name} was refused within an exchange`)
  return outcome.value
}
