/**
 * Orders to the guard on their way to its thread. A worker that is busy begins and ends hundreds of attempts at a time; one
 * object for each would cost more to copy than all else about them. Attempts with equal terms travel as two lists.
 */
import { keyOf } from '../attempt/report.ts'
import type { GuardOrder, Watched } from './protocol.ts'

type Begin = GuardOrder & { op: 'begin' }
type WatchedTerms = Omit<Watched, 'key' | 'jobId' | 'lease'>

export type PackedOrder =
  | Exclude<GuardOrder, { op: 'end' }>
  | {
      readonly op: 'begins'
      readonly terms: WatchedTerms
      readonly jobIds: readonly string[]
      readonly leases: readonly number[]
    }
  | { readonly op: 'ends'; readonly keys: readonly string[] }

/** The order among orders stays as it is. */
export function pack(orders: readonly GuardOrder[]): PackedOrder[] {
  const packed: PackedOrder[] = []
  for (let at = 0; at < orders.length;) {
    const order = orders[at]
    if (order?.op === 'end') {
      const keys: string[] = []
      for (let next = orders[at]; next?.op === 'end'; next = orders[(at += 1)]) keys.push(next.key)
      packed.push({ op: 'ends', keys })
    } else if (order?.op === 'begin' && order.attempt.lease !== null) {
      const { key: _key, jobId: _jobId, lease: _lease, ...terms } = order.attempt
      const [jobIds, leases]: [string[], number[]] = [[], []]
      for (let next = orders[at]; isAlike(order, next); next = orders[(at += 1)]) {
        jobIds.push(next.attempt.jobId)
        leases.push(next.attempt.lease)
      }
      packed.push({ op: 'begins', terms, jobIds, leases })
    } else {
      if (order !== undefined) packed.push(order)
      at += 1
    }
  }
  return packed
}

export function unpack(orders: readonly PackedOrder[], obey: (order: GuardOrder) => void): void {
  for (const order of orders) {
    if (order.op === 'ends') for (const key of order.keys) obey({ op: 'end', key })
    else if (order.op === 'begins') unpackBegins(order, obey)
    else obey(order)
  }
}

function unpackBegins(
  { terms, jobIds, leases }: PackedOrder & { op: 'begins' },
  obey: (order: GuardOrder) => void,
): void {
  jobIds.forEach((jobId, index) => {
    const lease = leases[index] ?? 0
    obey({ op: 'begin', attempt: { ...terms, key: keyOf({ jobId, attempt: 0, lease }), jobId, lease } })
  })
}

function isAlike(
  { attempt: first }: Begin,
  order: GuardOrder | undefined,
): order is Begin & { attempt: { readonly lease: number } } {
  if (order?.op !== 'begin' || order.attempt.lease === null) return false
  const { attempt } = order
  return (
    attempt.hardAt === first.hardAt &&
    attempt.listedAt === first.listedAt &&
    attempt.manual === first.manual &&
    attempt.stallMs === first.stallMs &&
    attempt.visibilityMs === first.visibilityMs &&
    attempt.graceMs === first.graceMs &&
    isSameStop(attempt.softStop, first.softStop)
  )
}

function isSameStop(one: Watched['softStop'], other: Watched['softStop']): boolean {
  if (one.why !== 'deadline' || other.why !== 'deadline') return false
  return one.kind === other.kind && one.limitMs === other.limitMs && one.source === other.source
}
