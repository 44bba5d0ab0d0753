/** The rows of LOOK: one statement that sees what every transaction needs, asked once for all that ask in the same turn. */
import type { Instant, Outage, TypePolicy } from '@curfew/core'
import type { Life, Queue } from '../store.ts'
import { toQueue, toTypePolicy } from './rows.ts'

/** What one statement sees. */
export interface Looked {
  readonly life: Life
  /** When the next row of each kind wants to be woken. */
  readonly next: Readonly<Record<'workers' | 'jobs' | 'docs', Instant | null>>
  readonly queues: readonly Queue[]
  readonly types: readonly TypePolicy[]
}

/** What it will be asked for when the turn ends. */
export interface Looking {
  readonly queues: Set<string>
  readonly types: Set<string>
  readonly looked: Promise<Looked>
}

/** The columns of LOOK, by kind. */
export type LookRow =
  | readonly [
      kind: 'life',
      outages: string,
      ...nothing: readonly [null, null, null],
      aliveAt: Instant | null,
      nextWorker: Instant | null,
      nextJob: Instant | null,
      nextDoc: Instant | null,
    ]
  | readonly [
      kind: 'queue',
      name: string,
      config: string,
      ...nothing: readonly [null, null],
      version: number,
      createdAt: Instant,
      pausedAt: Instant | null,
      drainingAt: Instant | null,
    ]
  | readonly [
      kind: 'type',
      type: string,
      asked: string,
      caps: string,
      sent: string,
      updatedAt: Instant,
      ...nothing: readonly [null, null, null],
    ]

export function toLooked(rows: readonly LookRow[]): Looked {
  const queues: Queue[] = []
  const types: TypePolicy[] = []
  let life = toLife(undefined)
  let next: Looked['next'] = { workers: null, jobs: null, docs: null }
  for (const row of rows) {
    switch (row[0]) {
      case 'life':
        life = toLife([row[5], row[1]])
        next = { workers: row[6], jobs: row[7], docs: row[8] }
        break
      case 'queue':
        queues.push(toQueue([row[1], row[5], row[6], row[7], row[2], row[8]]))
        break
      case 'type':
        types.push(toTypePolicy([row[1], row[2], row[3], row[4], row[5]]))
        break
    }
  }
  return { life, next, queues, types }
}

export type LifeRow = readonly [aliveAt: Instant | null, outages: string]

export function toLife(row: LifeRow | undefined): Life {
  return { aliveAt: row?.[0] ?? null, outages: JSON.parse(row?.[1] ?? '[]') as Outage[] }
}
