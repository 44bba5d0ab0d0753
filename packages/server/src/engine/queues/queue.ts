/** Queues: pause, resume and their defaults. A queue exists from its first use. */
import { mergeQueueConfig, queueEvent, type TypePolicy } from '@curfew/core'
import type { Queue } from '../../store/store.ts'
import type { Command } from '../kernel/command.ts'
import type { QueuesContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'

/** The queue, or how it will be when it is used for the first time. */
export function queueFor(unit: Unit, name: string): Queue {
  const known = unit.queue(name)
  return known ?? { name, version: 0, createdAt: unit.now, pausedAt: null, drainingAt: null, config: {} }
}

/** A paused queue takes jobs and hands out none; its deadlines go on. */
export function pause(name: string): Command<Queue> {
  return {
    name: 'pause',
    needs: { queues: [name] },
    run: (unit) => {
      const queue = queueFor(unit, name)
      if (queue.pausedAt !== null) return queue
      const paused = { ...queue, pausedAt: unit.now }
      unit.putQueue(paused)
      unit.emit(queueEvent('queue.paused', name, unit.now))
      return paused
    },
  }
}

/** A queue that drains takes no jobs and hands out those it has (OJS queue configuration §5.1). */
export function drain(name: string): Command<Queue> {
  return {
    name: 'drain',
    needs: { queues: [name] },
    run: (unit) => {
      const queue = queueFor(unit, name)
      if (queue.drainingAt !== null) return queue
      const draining = { ...queue, drainingAt: unit.now }
      unit.putQueue(draining)
      unit.emit(queueEvent('queue.draining', name, unit.now))
      return draining
    },
  }
}

/** Ends a pause and a drain. */
export async function resume(context: QueuesContext, name: string): Promise<Queue> {
  const queue = await context.run<Queue>({
    name: 'resume',
    needs: { queues: [name] },
    run: (unit) => {
      const queue = queueFor(unit, name)
      if (queue.pausedAt === null && queue.drainingAt === null) {
        if (unit.queue(name) === null) unit.putQueue(queue)
        return queue
      }
      const resumed = { ...queue, pausedAt: null, drainingAt: null }
      unit.putQueue(resumed)
      unit.emit(queueEvent('queue.resumed', name, unit.now))
      return resumed
    },
  })
  context.polls.wakeQueue(name)
  return queue
}

/** Touches no job that is already stored; polls that wait for jobs of the queue, and enqueues that wait for room in it, look again. */
export async function configureQueue(
  context: QueuesContext,
  name: string,
  sent: Readonly<Record<string, unknown>>,
): Promise<Queue> {
  const queue = await context.run(configure(name, sent))
  context.polls.wakeQueue(name)
  context.capacityWaiters.wakeAll(name)
  return queue
}

function configure(name: string, sent: Readonly<Record<string, unknown>>): Command<Queue> {
  return {
    name: 'configure',
    needs: { queues: [name] },
    run: (unit) => {
      const queue = queueFor(unit, name)
      const configured = { ...queue, config: mergeQueueConfig(queue.config, sent) }
      unit.putQueue(configured)
      return configured
    },
  }
}

export function putTypePolicy(policy: TypePolicy): Command<TypePolicy> {
  return {
    name: 'policy',
    needs: { types: [policy.type] },
    run: (unit) => {
      unit.putType(policy.type, policy)
      return policy
    },
  }
}

/** False when there was none. */
export function deleteTypePolicy(type: string): Command<boolean> {
  return {
    name: 'policy',
    needs: { types: [type] },
    run: (unit) => {
      if (unit.type(type) === null) return false
      unit.putType(type, null)
      return true
    },
  }
}
