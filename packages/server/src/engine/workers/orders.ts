/**
 * Orders: what a worker should stop, and the state it should be in, told in the answer to a call by which it listens.
 *
 * The commit that stores a notice or a directive wakes the open calls of the worker (`polls.ts`), on every server. A call
 * looks once it is entered there, so that it misses nothing; what a worker has heard it says with its next call.
 */
import { desiredState, directiveAfter, workerEvent, type Worker, type WorkerState } from '@curfew/core'
import { needsOf, type Command } from '../kernel/command.ts'
import type { JobsContext } from '../jobs/context.ts'
import { claim, waitFor, type FetchRequest, type Handed, type Look, type Seen } from '../jobs/fetch.ts'
import { stopOrders, type StopOrder } from './heartbeat.ts'
import type { Unit } from '../kernel/unit.ts'
import { armed, isLateCall, livingWorker, seen } from './workers.ts'

export interface Listening {
  readonly workerId: string
  /** What the worker reported when it sent the call. */
  readonly state: WorkerState
  /** Grows with each call, and counts with the beats. */
  readonly seq: number
  /** Orders that the worker has received. */
  readonly heard: readonly { readonly jobId: string; readonly lease: number }[]
}

export interface Orders {
  readonly state: WorkerState
  readonly stop: readonly StopOrder[]
  /** Repeated until the worker has registered, because an answer may be lost. */
  readonly reregister: boolean
  /** The call is answered at once. A worker that never registers is not: it would call without end. */
  readonly isUrgent: boolean
}

/** Holds the call until there are jobs or orders. */
export function waitForOrders(
  context: JobsContext,
  request: FetchRequest,
  listening: Listening,
  gone: AbortSignal,
): Promise<{ readonly handed: readonly Handed[]; readonly orders: Orders | null }> {
  const queues = isServed(listening, request) ? request.queues : []
  // The worker's word is taken once: a look that comes later repeats what is old by then.
  let isFirst = true
  const look: Look = ({ dismissed, stays }) => {
    const once = isFirst
    isFirst = false
    return lookFor(context, dismissed ? null : request, listening, once, stays)
  }
  return waitFor(context, { ...request, queues, listenSeq: listening.seq }, look, gone)
}

const isServed = ({ state }: Listening, { count }: FetchRequest): boolean => state === 'running' && count > 0

/**
 * Orders, and jobs for a worker that runs and shall go on running. `isFirst`: what it says of itself is new. `stays`: the
 * call stays open if there is nothing for it.
 */
export function lookFor(
  context: JobsContext,
  request: FetchRequest | null,
  listening: Listening,
  isFirst: boolean,
  stays = false,
): Command<Seen> {
  const { workerId } = listening
  const claims = request === null || !isServed(listening, request) ? null : claim(context, request, stays)
  const listens: Command<unknown> = {
    name: 'fetch',
    needs: { workers: [workerId], notices: [workerId] },
    run: () => {},
  }
  return {
    name: 'fetch',
    needs: needsOf(claims === null ? [listens] : [listens, claims]),
    run: async (unit) => {
      const orders = await hear(unit, listening, isFirst, stays)
      const claimed = claims === null || orders.state !== 'running' ? null : await claims.run(unit)
      return { claimed, orders: orders.isUrgent || orders.reregister ? orders : null }
    },
  }
}

const HAS_LEFT: Orders = { state: 'terminate', stop: [], reregister: true, isUrgent: true }

async function hear(unit: Unit, listening: Listening, isFirst: boolean, stays: boolean): Promise<Orders> {
  if (isLateCall(unit, listening.workerId, listening.seq)) return HAS_LEFT
  const before = livingWorker(unit, listening.workerId)
  const worker = listener(unit, before, listening, isFirst)
  if (worker.state === 'quiet' && before.state === 'running')
    unit.emit(workerEvent('worker.quiet', worker.id, unit.now))
  forgetHeard(unit, listening)
  const state = desiredState(worker.directive, listening.state)
  const stop = await stopOrders(unit, worker, unit.notices(worker.id))
  const isUrgent = state !== listening.state || stop.length > 0 || !before.known
  if (!stays || isUrgent || worker !== before || !unit.isFresh(worker)) unit.putWorker(seen(unit, worker))
  return { state, stop, reregister: !before.registered, isUrgent }
}

/** A worker that listens is judged by its silence, as one that beats; what it reports counts as in a beat. */
function listener(unit: Unit, before: Worker, { state, seq }: Listening, isFirst: boolean): Worker {
  const directive = directiveAfter(before.directive, state)
  const isNews = isFirst && (before.state !== state || before.directive !== directive)
  const isLate = before.beatSeq !== null && seq < before.beatSeq
  const worker: Worker =
    isNews && !isLate ? { ...before, state, directive, draining: before.draining && state === 'quiet' } : before
  return worker.known && worker.wakeAt !== null ? worker : armed(unit, seen(unit, { ...worker, known: true }))
}

function forgetHeard(unit: Unit, { workerId, heard }: Listening): void {
  if (heard.length === 0) return
  const keys = new Set(heard.map(({ jobId, lease }) => `${jobId} ${String(lease)}`))
  for (const notice of unit.notices(workerId))
    if (keys.has(`${notice.jobId} ${String(notice.lease)}`)) unit.forgetNotices(workerId, notice)
}
