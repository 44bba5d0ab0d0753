/**
 * Orders to a guard in another thread, on their way. A message wakes that thread, and the copy costs more than all else about
 * an attempt. So no message is sent for what the guard does not need before its next beat:
 *
 * - An inline attempt whose clocks need no beat out of turn is put into the shared list (`shared-list.ts`). When an order about it follows
 *   (it has logged, or gave a sign), the guard first gets it by a message, too.
 * - Contact with the server is passed on a few times a second. The guard then knows of contact a little less than there was, so it
 *   is silent and fences no later than it should.
 */
import { endsAfter, leftUntil } from '@curfew/core'
import type { GuardOrder } from './protocol.ts'
import { ListWriter } from './shared-list.ts'
import { isPacedBy } from './guard.ts'

/** Contact is passed on this often, and at least so many times within the silence that the server allows. */
const CONTACT_MS = 250
const CONTACTS_PER_TIMEOUT = 20

type Begin = GuardOrder & { readonly op: 'begin' }

export class OrderLine {
  readonly #list = new ListWriter()
  /** Attempts of the list, until they end: the guard may have to hear of them after all. */
  readonly #unsent = new Map<string, Begin>()
  #waiting: GuardOrder[] = []
  #intervalMs: number | null = null
  #contactEveryMs = 0
  /** Contact before this moment is not passed on. */
  #nextContactAt = -Infinity

  /** The memory of the list, for the guard. */
  get listed(): SharedArrayBuffer {
    return this.#list.buffer
  }

  /** True: it is the first that waits to be sent. */
  add(order: GuardOrder): boolean {
    switch (order.op) {
      case 'registered':
        this.#intervalMs = order.intervalMs
        this.#contactEveryMs = Math.min(CONTACT_MS, order.timeoutMs / CONTACTS_PER_TIMEOUT)
        return this.#push(order)
      case 'contact':
        if (leftUntil(this.#nextContactAt, order.askedAt) > 0) return false
        this.#nextContactAt = endsAfter(order.askedAt, this.#contactEveryMs)
        return this.#push(order)
      case 'begin':
        if (this.#enlist(order)) return false
        this.#list.posts(true)
        return this.#push(order)
      case 'end':
        // Not sent: the guard knows it by the list alone.
        if (this.#list.remove(order.key) && this.#unsent.delete(order.key)) return false
        return this.#push(order)
      case 'sign':
      case 'log':
      case 'log-stored':
      case 'reply':
      case 'stop':
        return this.#pushAbout(order.key, order)
      case 'run':
        return this.#pushAbout(order.task.key, order)
      default:
        return this.#push(order)
    }
  }

  take(): readonly GuardOrder[] {
    if (this.#waiting.length === 0) return this.#waiting
    const orders = this.#waiting
    this.#waiting = []
    return orders
  }

  #enlist(order: Begin): boolean {
    const { attempt } = order
    const { key, jobId, lease, manual } = attempt
    if (lease === null || manual || this.#intervalMs === null || !isPacedBy(attempt, this.#intervalMs)) return false
    if (!this.#list.add({ key, jobId, lease })) return false
    this.#unsent.set(key, order)
    return true
  }

  #pushAbout(key: string, order: GuardOrder): boolean {
    const begin = this.#unsent.get(key)
    if (begin === undefined) return this.#push(order)
    this.#unsent.delete(key)
    this.#list.posts(false)
    const isFirst = this.#push(begin)
    this.#push(order)
    return isFirst
  }

  #push(order: GuardOrder): boolean {
    return this.#waiting.push(order) === 1
  }
}
