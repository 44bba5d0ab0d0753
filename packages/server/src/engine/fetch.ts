/** FETCH: hands out jobs, highest priority and oldest first; with `waitMs` it waits for some. */
import { isDue, start, type Checkpoint, type Claim, type Job, type Millis, type Worker } from '@curfew/core'
import type { Command } from './corridor.ts'
import type { Engine } from './engine.ts'
import { follow } from './followers.ts'
import type { Unit } from './unit.ts'
import { livingWorker, seen, touch } from './workers.ts'

export interface FetchRequest {
  readonly queues: readonly string[]
  readonly count: number
  readonly workerId: string | null
  readonly visibilityMs: Millis | null
  readonly waitMs: number
}

export interface Handed {
  readonly job: Job
  readonly checkpoint: Checkpoint | null
}

/** `gone` is aborted when the asker hangs up. */
export async function fetchJobs(engine: Engine, request: FetchRequest, gone: AbortSignal): Promise<Handed[]> {
  if (request.waitMs === 0 || engine.closing.aborted) return (await engine.run(claim(engine, request))) ?? []
  const poll = engine.polls.enter(request.queues, request.workerId)
  let over = false
  const end = (): void => {
    over = true
    poll.wake()
  }
  const timer = engine.host.setTimer(request.waitMs, end)
  gone.addEventListener('abort', end, { once: true })
  try {
    for (;;) {
      if (gone.aborted) {
        await engine.run(signOfLife(request.workerId))
        return []
      }
      if (poll.dismissed) return []
      const handed = await engine.run(claim(engine, request))
      if (handed === null) return []
      if (handed.length > 0 || over) return handed
      await poll.woken()
    }
  } finally {
    timer.cancel()
    gone.removeEventListener('abort', end)
    poll.leave()
  }
}

function signOfLife(workerId: string | null): Command<void> {
  return {
    name: 'fetch',
    needs: { workers: workerId === null ? [] : [workerId] },
    run: (unit) => touch(unit, workerId),
  }
}

/** Null: this worker is not to be given anything, however long it waits. */
export function claim(engine: Engine, request: FetchRequest): Command<Handed[] | null> {
  return {
    name: 'fetch',
    needs: { workers: request.workerId === null ? [] : [request.workerId], queues: request.queues },
    run: async (unit) => {
      const worker = request.workerId === null ? null : meet(unit, request.workerId)
      if (worker !== null && (worker.state !== 'running' || worker.directive !== 'continue')) return null
      // What ended just now may have made the next step available.
      await follow(engine, unit)
      const handed: Handed[] = []
      for (const name of request.queues) {
        const left = request.count - handed.length
        if (left <= 0) break
        const queue = unit.queue(name)
        if (queue === null || queue.pausedAt !== null) continue
        for (const job of await unit.claimable({
          queue: name,
          limit: left,
          order: 'fifo',
          tenant: null,
          without: [],
        })) {
          // Another server may have had it locked when what is due was settled.
          const ready = isDue(job.wakeAt, unit.now) ? await unit.settle(job) : job
          if (ready?.state === 'available') handed.push(await handOut(unit, ready, worker, request))
        }
      }
      return handed
    },
  }
}

function meet(unit: Unit, workerId: string): Worker {
  const worker = seen(unit, livingWorker(unit, workerId))
  unit.putWorker(worker)
  return worker
}

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
