/**
 * Requests that wait for capacity in a queue that is full (`block`). They do not wait inside a transaction: each try is a
 * command like any other, and blocks no other command. A commit that ends jobs wakes as many waiters as it freed places,
 * oldest first. A waiter that needs more places than are free passes its turn on to the next one.
 */
import { elapsed, isTerminal, OjsError, queueEvent, type Instant, type Millis } from '@curfew/core'
import type { StateChange } from '../../store/store.ts'
import type { Command } from '../kernel/command.ts'
import { isAnyAborted, onAbort } from '../kernel/until.ts'
import type { QueuesContext } from './context.ts'

class Waiter {
  readonly queue: string
  #awake = false
  #resolve: (() => void) | null = null

  constructor(queue: string) {
    this.queue = queue
  }

  get isAsleep(): boolean {
    return !this.#awake
  }

  wake(): void {
    this.#awake = true
    this.#resolve?.()
  }

  woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = () => {
        this.#resolve = null
        this.#awake = false
        resolve()
      }
      if (this.#awake) this.#resolve()
    })
  }
}

export class CapacityWaiters {
  readonly #waiting = new Map<string, Set<Waiter>>()
  /** When a queue's refusals were last told of, and how many there were since. */
  readonly #refusals = new Map<string, { toldAt: Instant; since: number }>()

  get size(): number {
    return this.#waiting.size
  }

  enter(queue: string): Waiter {
    const waiter = new Waiter(queue)
    const others = this.#waiting.get(queue)
    if (others === undefined) this.#waiting.set(queue, new Set([waiter]))
    else others.add(waiter)
    return waiter
  }

  leave(waiter: Waiter): void {
    const others = this.#waiting.get(waiter.queue)
    if (others === undefined) return
    // A turn that is no longer needed goes to another waiter.
    if (!waiter.isAsleep) this.passOn(waiter)
    others.delete(waiter)
    if (others.size === 0) this.#waiting.delete(waiter.queue)
  }

  /** The turn of this one goes to the next waiter. */
  passOn(waiter: Waiter): void {
    let isBehind = false
    for (const other of this.#waiting.get(waiter.queue) ?? []) {
      if (isBehind && other.isAsleep) {
        other.wake()
        return
      }
      isBehind ||= other === waiter
    }
  }

  /** Jobs ended, and their queues have room again. */
  freed(changes: readonly StateChange[]): void {
    const places = new Map<string, number>()
    for (const { from, to, queue } of changes) {
      const wasOpen = from !== null && !isTerminal(from)
      if (wasOpen && (to === null || isTerminal(to))) places.set(queue, (places.get(queue) ?? 0) + 1)
    }
    for (const [queue, count] of places) this.#wake(queue, count)
  }

  wakeAll(queue: string): void {
    this.#wake(queue, Infinity)
  }

  /** There may be room anywhere. */
  wakeAllQueues(): void {
    for (const queue of this.#waiting.keys()) this.wakeAll(queue)
  }

  #wake(queue: string, count: number): void {
    let left = count
    for (const waiter of this.#waiting.get(queue) ?? []) {
      if (left <= 0) return
      if (!waiter.isAsleep) continue
      waiter.wake()
      left -= 1
    }
  }

  /** Counts a refusal; how many there were since they were last told of, if it is time to tell. */
  refused(queue: string, now: Instant): number | null {
    const known = this.#refusals.get(queue)
    if (known !== undefined && elapsed(known.toldAt, now) < TELL_EVERY_MS) {
      known.since += 1
      return null
    }
    this.#refusals.set(queue, { toldAt: now, since: 0 })
    return (known?.since ?? 0) + 1
  }
}

/** A queue that is full under fire must not fill the log as well. */
const TELL_EVERY_MS = 1_000

/** How long a request wants to wait for room, and whether its sender is still there. */
export interface Patience {
  readonly waitMs: Millis
  /** Aborted when the asker hangs up. */
  readonly gone: AbortSignal
}

/** The name of one try: its refusal is not counted, because the request waits and is tried again. */
const TRY = 'enqueue-try'

/** Runs a command that enqueues; while its queue is full, and lets requests wait, it is tried again as jobs end. */
export async function waitForCapacity<T>(context: QueuesContext, enqueue: Command<T>, patience: Patience): Promise<T> {
  const command: Command<T> = { ...enqueue, name: TRY }
  const ending = endOf(context, patience)
  let waiter: Waiter | null = null
  try {
    for (;;) {
      try {
        return await context.run(command)
      } catch (error) {
        const full = fullQueue(error)
        if (full === null) throw error
        // If it was its turn, there is not enough room for it, but perhaps for the next.
        if (waiter !== null) context.capacityWaiters.passOn(waiter)
        if (!full.waits || ending.isOver()) {
          noteFullQueue(context, error as OjsError)
          throw error
        }
        if (waiter === null || waiter.queue !== full.queue) {
          if (waiter !== null) context.capacityWaiters.leave(waiter)
          // Room may have come before this one waited for it: then the next try finds it.
          waiter = context.capacityWaiters.enter(full.queue)
          ending.wakes(waiter)
          continue
        }
        await waiter.woken()
        if (ending.isForgotten()) {
          context.capacityWaiters.passOn(waiter)
          throw error
        }
      }
    }
  } finally {
    ending.forget()
    if (waiter !== null) context.capacityWaiters.leave(waiter)
  }
}

function fullQueue(error: unknown): { queue: string; waits: boolean } | null {
  if (!(error instanceof OjsError) || error.code !== 'QUEUE_FULL') return null
  return { queue: String(error.details['queue']), waits: error.details['strategy'] === 'block' }
}

interface Ending {
  isOver(): boolean
  /** The caller is gone. */
  isForgotten(): boolean
  wakes(waiter: Waiter): void
  forget(): void
}

/** The time is up, the asker is gone, or the server stops: the waiter is woken, and does not wait again. */
function endOf(context: QueuesContext, { waitMs, gone }: Patience): Ending {
  let over = false
  let waiter: Waiter | null = null
  const end = (): void => {
    over = true
    waiter?.wake()
  }
  const timer = context.host.setTimer(waitMs, end)
  const signals = [gone, context.closing]
  const unhook = onAbort(signals, end)
  return {
    isOver: () => over || isAnyAborted(signals),
    isForgotten: () => gone.aborted,
    wakes: (next) => {
      waiter = next
    },
    forget: () => {
      timer.cancel()
      unhook()
    },
  }
}

/** Counts every refusal, and tells of them at most once a second and queue. */
export function noteFullQueue(context: QueuesContext, error: OjsError): void {
  if (error.code !== 'QUEUE_FULL') return
  const { queue, depth, bound } = error.details
  const name = String(queue)
  context.meters.refusedForRoom(name)
  const refused = context.capacityWaiters.refused(name, context.now())
  if (refused === null) return
  const tell: Command<void> = {
    name: 'backpressure',
    run: (unit) => {
      unit.emit(queueEvent('backpressure.rejected', name, unit.now, { depth, bound, refused }))
    },
  }
  context.run(tell).catch(() => {
    // The server stops or cannot write: it was counted.
  })
}
