/**
 * FETCH: hands out jobs in the order of their queues, as far as limiters let them start; with `waitMs` it waits for some.
 *
 * A fetch that waits and was turned away by a limiter watches it: it tries again when the window opens, or when an active
 * job ends. One such poll is enough for a queue; when it leaves, another takes over (`polls.ts`).
 */
import {
  ALWAYS_IDLE,
  desiredState,
  interrupt,
  isDue,
  queueOrder,
  start,
  type Checkpoint,
  type Claim,
  type Job,
  type Millis,
  type ReportedError,
  type Worker,
} from '@curfew/core'
import { onAbort } from '../kernel/until.ts'
import type { Queue } from '../../store/store.ts'
import type { Command } from '../kernel/command.ts'
import type { JobsContext } from './context.ts'
import { Gate, isLimited, LIMITERS, type TurnedAway } from '../queues/limiters.ts'
import type { Orders } from '../workers/orders.ts'
import type { Brought } from './polls.ts'
import { hasPools, turns } from '../queues/pools.ts'
import { Pace } from '../kernel/turns.ts'
import type { Unit } from '../kernel/unit.ts'
import { isLateCall, livingWorker, seen, touch, touchLoaded } from '../workers/workers.ts'

export interface FetchRequest {
  readonly queues: readonly string[]
  readonly count: number
  readonly workerId: string | null
  readonly visibilityMs: Millis | null
  readonly waitMs: number
  /** Only this tenant's jobs; null: anybody's. */
  readonly tenant: string | null
  /** The number of the call, counted with the beats: a call from before the worker's deregistration gets nothing. */
  readonly seq?: number
}

export interface Claimed {
  readonly handed: readonly Handed[]
  /** Limiters held jobs back. */
  readonly turnedAway: TurnedAway | null
  /** Jobs were dropped or put off, so many that it has not seen all there is: another claim gets further. */
  readonly hasMore: boolean
}

export interface Handed {
  readonly job: Job
  readonly checkpoint: Checkpoint | null
}

/** `gone` is aborted when the asker hangs up. */
export async function fetchJobs(
  context: JobsContext,
  request: FetchRequest,
  gone: AbortSignal,
): Promise<readonly Handed[]> {
  if (request.waitMs === 0 || context.closing.aborted) return claimAtOnce(context, request)
  const look: Look = ({ stays }) => withoutOrders(claim(context, request, stays))
  return (await waitFor(context, { ...request, listenSeq: null }, look, gone)).handed
}

/** What a look brings: jobs, or null for a worker that is not to be given any; and orders. */
export interface Seen {
  readonly claimed: Claimed | null
  readonly orders: Orders | null
}
export interface Asked {
  /** Only for orders. */
  readonly dismissed: boolean
  /** The poll stays open if the look brings nothing: then its sign of life need not be written. */
  readonly stays: boolean
}
export type Look = (asked: Asked) => Command<Seen>

const TO_STAY: Asked = { dismissed: false, stays: true }
const AT_THE_END: Asked = { dismissed: false, stays: false }
const DISMISSED: Asked = { dismissed: true, stays: false }

export const withoutOrders = (claims: Command<Claimed | null>): Command<Seen> => ({
  ...claims,
  run: async (unit) => ({ claimed: await claims.run(unit), orders: null }),
})

type Held = Pick<FetchRequest, 'queues' | 'workerId' | 'tenant' | 'waitMs'> & { readonly listenSeq: number | null }

/** Looks until there is something, or nothing to wait for any more. */
export async function waitFor(
  context: JobsContext,
  held: Held,
  look: Look,
  gone: AbortSignal,
): Promise<{ readonly handed: readonly Handed[]; readonly orders: Orders | null }> {
  const poll = context.polls.enter({ ...held, lookWithin: () => look(TO_STAY) })
  const listens = held.listenSeq !== null
  let over = false
  const end = (): void => {
    over = true
    poll.nudge()
  }
  // The end of an empty poll changes nothing: work that comes before it wakes the poll.
  const timer = context.host.setTimer(held.waitMs, end, ALWAYS_IDLE)
  const unhook = onAbort([gone], end)
  try {
    let brought: Brought | null = null
    for (;;) {
      if (brought === null) {
        if (gone.aborted) {
          await context.run(signOfLife(held.workerId))
          return EMPTY
        }
        if (poll.superseded || (poll.dismissed && (!listens || context.closing.aborted))) return EMPTY
        if (poll.dismissed) return { ...EMPTY, orders: (await context.run(look(DISMISSED))).orders }
      }
      const isLast = over && brought === null
      const endings: number = brought?.endings ?? context.polls.endings
      const owed = brought === null && poll.look()
      const { claimed, orders }: Seen = brought?.seen ?? (await context.run(look(isLast ? AT_THE_END : TO_STAY)))
      if (claimed === null && owed) poll.owe()
      if (claimed === null && !listens) return EMPTY
      const { handed, turnedAway, hasMore } = claimed ?? NOT_SERVED
      // Who watched and got something does not know whether there is more: another looks.
      poll.watch(turnedAway ?? (handed.length > 0 && poll.watches !== null ? NOTHING_KNOWN : null))
      if (handed.length > 0 || orders?.isUrgent === true || isLast) return { handed, orders }
      if (over) continue // the last sign of its life has to be written
      // An end it has not seen may have come while it was looking.
      if (hasMore || (turnedAway?.awaitsEnd === true && context.polls.endings !== endings)) continue
      const opening = turnedAway?.opensAt == null ? null : context.timerAt(turnedAway.opensAt, () => poll.wake())
      try {
        brought = await poll.woken()
      } finally {
        opening?.cancel()
      }
    }
  } finally {
    timer.cancel()
    unhook()
    poll.leave()
  }
}

const UNDELIVERED: ReportedError = {
  type: 'undelivered',
  message: 'The worker hung up before the job could be sent to it.',
}

/** The answer with these jobs did not reach the asker: they go back, and the attempts do not count. */
export function handBack(handed: readonly Handed[]): Command<void> {
  return {
    name: 'nack',
    needs: { jobs: handed.map(({ job }) => job.id) },
    run: (unit) => {
      for (const { job } of handed) {
        const current = unit.job(job.id)
        if (current !== null && current.hold !== null && current.lease === job.lease)
          unit.apply(interrupt(current, UNDELIVERED, unit.moment))
      }
    },
  }
}

const EMPTY = { handed: [], orders: null } as const
const NOT_SERVED: Claimed = { handed: [], turnedAway: null, hasMore: false }
const NOTHING_KNOWN: TurnedAway = { opensAt: null, awaitsEnd: false }
/** So often a fetch that does not wait goes on behind jobs that limiters held back. */
const MAX_TRIES = 20

async function claimAtOnce(context: JobsContext, request: FetchRequest): Promise<readonly Handed[]> {
  for (let tries = 1; ; tries += 1) {
    const claimed = await context.run(claim(context, request))
    if (claimed === null) return []
    if (claimed.handed.length > 0 || !claimed.hasMore || tries === MAX_TRIES) return claimed.handed
  }
}

function signOfLife(workerId: string | null): Command<void> {
  return {
    name: 'fetch',
    needs: { workers: workerId === null ? [] : [workerId] },
    run: (unit) => touch(unit, workerId),
  }
}

/** Null: this worker is not to be given anything, however long it waits. `stays`: see `Asked`. */
export function claim(context: JobsContext, request: FetchRequest, stays = false): Command<Claimed | null> {
  return {
    name: 'fetch',
    needs: {
      workers: request.workerId === null ? [] : [request.workerId],
      queues: request.queues,
      // Names are locked first. Which queues need it is learnt from their rows.
      ...(request.queues.some((name) => context.limitedQueues.has(name)) ? { names: [LIMITERS] } : {}),
    },
    run: async (unit) => {
      if (isFromBeforeLeaving(unit, request)) return null
      const worker = request.workerId === null ? null : livingWorker(unit, request.workerId)
      const isServed = worker === null || mayRun(worker)
      const mayRest = stays && isServed && worker !== null && unit.isFresh(worker)
      if (worker !== null && !mayRest) unit.putWorker(seen(unit, worker))
      if (!isServed) return null
      // What ended just now may have made the next step available.
      await context.follow(unit)
      const gate = new Gate(context, unit)
      const looks = new Pace(context.host, QUEUES_PER_TURN)
      const handed: Handed[] = []
      let hasMore = false
      const left = (): number => request.count - handed.length
      const take = async (job: Job): Promise<void> => void handed.push(await handOut(unit, job, worker, request))
      const ask = async (name: string, most: number): Promise<void> => {
        // SQLite answers at once: a fetch may name a thousand queues, each with a look of its own.
        const pause = looks.step()
        if (pause !== undefined) await pause
        const queue = unit.queue(name)
        if (queue === null || queue.pausedAt !== null) return
        if (await takeFrom(unit, gate, queue, most, request.tenant, take)) hasMore = true
      }
      if (hasPools(unit, request.queues))
        for await (const { queue, most } of turns(context, unit, request.queues, left)) await ask(queue, most)
      else for (const name of request.queues) if (left() > 0) await ask(name, left())
      if (worker !== null && handed.length > 0) touchLoaded(unit, worker.id)
      return { handed, turnedAway: gate.turnedAway, hasMore }
    },
  }
}

/** How many queues a claim looks into in one turn. */
export const QUEUES_PER_TURN = 100

/** Behind jobs that wait for a spent limiter others may be free. So often one looks further, at so many jobs. */
const MAX_ROUNDS = 20
const JOBS_A_ROUND = 1_000

/**
 * Takes up to so many jobs of a queue; true when it is worth looking again at once. Jobs behind so many spent limiters that
 * no claim can pass them all are found when one of those opens.
 */
async function takeFrom(
  unit: Unit,
  gate: Gate,
  queue: Queue,
  count: number,
  tenant: string | null,
  take: (job: Job) => Promise<void>,
): Promise<boolean> {
  const room = isLimited(queue) ? await gate.enter(queue) : Infinity
  let left = Math.min(count, room)
  for (let rounds = 0; left > 0; rounds += 1) {
    if (rounds === MAX_ROUNDS) return gate.hasMoved
    const jobs = await unit.claimable({
      queue: queue.name,
      // A limited queue has one claimer at a time, so it may look at more jobs than it takes.
      limit: rounds === 0 ? left : Math.max(left, JOBS_A_ROUND),
      order: queueOrder(queue.config),
      tenant,
      without: gate.spent,
    })
    if (jobs.some(({ limitKey }) => limitKey !== null)) await gate.load(queue, jobs)
    let heldBack = 0
    for (const job of jobs) {
      if (left === 0) break
      // Another server may have had it locked when what is due was settled.
      const ready = isDue(job.wakeAt, unit.now) ? await unit.settle(job) : job
      if (ready?.state !== 'available') continue
      if (!gate.lets(ready)) {
        heldBack += 1
        continue
      }
      await take(ready)
      gate.started(queue, ready)
      left -= 1
    }
    if (heldBack === 0) break
  }
  if (count > room) await gate.left(queue)
  return false
}

/** A fetch without a number cannot be told from one of a worker that came back. */
const isFromBeforeLeaving = (unit: Unit, { workerId, seq }: FetchRequest): boolean =>
  workerId !== null && seq !== undefined && isLateCall(unit, workerId, seq)

const mayRun = ({ state, directive }: Worker): boolean =>
  state === 'running' && desiredState(directive, 'running') === 'running'

async function handOut(unit: Unit, job: Job, worker: Worker | null, request: FetchRequest): Promise<Handed> {
  const claim: Claim = {
    workerId: request.workerId,
    known: worker?.known ?? false,
    handler: worker?.handlers[job.type] ?? null,
    fetchVisibilityMs: request.visibilityMs,
  }
  const step = start(job, claim, unit.moment)
  unit.apply(step)
  return { job: step.job, checkpoint: step.job.checkpointSeq === 0 ? null : await unit.checkpoint(job.id) }
}
