/** Workers come and go: register, deregister, and what an operator asks of them. */
import {
  abandon,
  hasLeft,
  interrupt,
  notFound,
  OjsError,
  shownDirective,
  workerEvent,
  type AskedLimits,
  type Directive,
  type Instant,
  type ReportedError,
  type Worker,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { JobsContext } from '../jobs/context.ts'
import { absorbHeld, armed, newWorker } from './workers.ts'

export interface Registration {
  readonly workerId: string
  readonly hostname: string
  readonly pid: number
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly labels: readonly string[]
  readonly startedAt: string | null
  readonly handlers: Readonly<Record<string, AskedLimits>>
}

/**
 * Registering an id again replaces its record; the jobs it holds stay its own, and it hears of those it lost. Calls that
 * are open end: an earlier process may have left them, with larger numbers than those of the new one.
 */
export async function register(context: JobsContext, registration: Registration): Promise<Instant> {
  const registeredAt = await context.run(replaceRecord(registration))
  context.polls.dismiss(registration.workerId)
  return registeredAt
}

function replaceRecord(registration: Registration): Command<Instant> {
  return {
    name: 'register',
    needs: { workers: [registration.workerId] },
    run: async (unit) => {
      const { workerId: id, ...facts } = registration
      const before = unit.worker(id)
      if (before !== null) await absorbHeld(unit, before)
      const worker: Worker = { ...newWorker(unit, id), ...facts, registered: true, known: true }
      // An operator's word outlives a new registration of the same process.
      unit.putWorker(armed(unit, { ...worker, directive: before?.diedAt === null ? before.directive : 'continue' }))
      unit.emit(
        workerEvent('worker.started', id, unit.now, {
          hostname: facts.hostname,
          pid: facts.pid,
          queues: facts.queues,
          concurrency: facts.concurrency,
        }),
      )
      return unit.now
    },
  }
}

export interface Departure {
  readonly requeued: readonly string[]
  readonly discarded: readonly string[]
}

export interface Leaving {
  readonly workerId: string
  /** The attempts it started and did not end; null: it does not say. */
  readonly leases: Readonly<Record<string, number>> | null
  readonly seq: number | null
}

const NEVER_STARTED: ReportedError = {
  type: 'shutdown',
  message: 'The worker deregistered before it started the job.',
}

/**
 * A worker leaves; whatever it still holds is recovered at once, whatever clock it is under. Its row is kept for a while:
 * a beat that was sent before must not bring it back.
 */
export async function deregister(context: JobsContext, { workerId, leases, seq }: Leaving): Promise<Departure> {
  const departure = await context.run<Departure>({
    name: 'deregister',
    needs: { workers: [workerId] },
    run: async (unit) => {
      const worker = unit.worker(workerId)
      if (worker === null || worker.diedAt !== null) throw notFound('worker', workerId)
      const requeued: string[] = []
      const discarded: string[] = []
      for (const job of await unit.heldBy(workerId)) {
        const isStarted = leases === null || leases[job.id] === job.lease
        const step = isStarted ? abandon(job, unit.moment) : interrupt(job, NEVER_STARTED, unit.moment)
        unit.apply(step)
        ;(step.job.state === 'discarded' ? discarded : requeued).push(job.id)
      }
      unit.forgetNotices(workerId)
      const left: Worker = { ...newWorker(unit, workerId), directive: 'left', beatSeq: seq, diedAt: unit.now }
      unit.putWorker(armed(unit, left))
      unit.noteOrders(workerId)
      unit.emit(
        workerEvent('worker.stopped', workerId, unit.now, { requeued_jobs: requeued, discarded_jobs: discarded }),
      )
      return { requeued, discarded }
    },
  })
  context.polls.dismiss(workerId)
  return departure
}

export type DirectiveWord = 'quiet' | 'terminate' | 'resume'

/** An operator's order to a worker; the answer to its next heartbeat carries it. `terminate` cannot be taken back. */
export async function direct(context: JobsContext, workerId: string, word: DirectiveWord): Promise<Worker> {
  const directed = await context.run<Worker>({
    name: 'direct',
    needs: { workers: [workerId] },
    run: (unit) => {
      const worker = unit.worker(workerId)
      if (worker === null || worker.diedAt !== null) throw notFound('worker', workerId)
      if (word !== 'terminate' && (worker.directive === 'terminate' || worker.state === 'terminate')) {
        throw new OjsError('conflict', 'The worker is terminating, and that order cannot be taken back.', {
          details: { worker_id: workerId, directive: shownDirective(worker.directive), state: worker.state },
        })
      }
      const asked: Worker = { ...worker, directive: directiveFor(word, worker) }
      unit.putWorker(asked)
      unit.noteOrders(workerId)
      return asked
    },
  })
  if (word !== 'resume') context.polls.dismiss(workerId)
  return directed
}

/** A worker that is quiet, or may be about to be, has to hear that it may run; any other runs already. */
function directiveFor(word: DirectiveWord, { directive, state }: Worker): Directive {
  if (word !== 'resume') return word
  return directive === 'continue' && state === 'running' ? 'continue' : 'resume'
}

/** An operator removes the record of a worker that is dead or has never introduced itself. */
export function forgetWorker(workerId: string): Command<void> {
  return {
    name: 'forget',
    needs: { workers: [workerId] },
    run: async (unit) => {
      const worker = unit.worker(workerId)
      if (worker === null || hasLeft(worker)) throw notFound('worker', workerId)
      if (worker.diedAt === null && (worker.known || (await unit.heldBy(workerId)).length > 0)) {
        throw new OjsError('conflict', 'Only a stale worker can be removed; this one is alive or holds jobs.', {
          details: { worker_id: workerId },
        })
      }
      unit.removeWorker(workerId)
    },
  }
}
