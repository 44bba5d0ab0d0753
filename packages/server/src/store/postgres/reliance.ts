/**
 * What a transaction relies on without having asked. A lone enqueue needs the signs of life, its queue and its type, that its
 * id is free and that nothing is due. The store remembers all of it from the looks before, so such a transaction is decided
 * from memory and has one round trip: its first statement (EXPECT_UNCHANGED) ends it if any of this is no longer so. Then it
 * is decided again, and looks.
 *
 * Only a transaction that has sent nothing relies on anything: whatever else it has to ask, it looks in the same round trip.
 */
import type { Instant, TypePolicy } from '@curfew/core'
import { Rows } from '../remembered-rows.ts'
import type { Changes, Life, Queue } from '../store.ts'
import type { Looked } from './look.ts'
import { exact, listOf, outagesText, typeValues } from './rows.ts'

const MAX_ROWS = 1_000

/** What looks have seen, and what was committed here since. */
export class LastLook {
  #life: Life | null = null
  readonly #queues = new Rows<Queue>(MAX_ROWS)
  readonly #types = new Rows<TypePolicy>(MAX_ROWS)

  /** Null: unknown. */
  get life(): Life | null {
    return this.#life
  }

  queue(name: string): Queue | null | undefined {
    return this.#queues.get(name)
  }

  type(type: string): TypePolicy | null | undefined {
    return this.#types.get(type)
  }

  /** These names were looked for; those that are not among the rows are not there. */
  saw({ life, queues, types }: Looked, names: Iterable<string>, typeNames: Iterable<string>): void {
    this.#life = life
    for (const name of names) this.#queues.put(name, null)
    for (const type of typeNames) this.#types.put(type, null)
    for (const queue of queues) this.#queues.put(queue.name, queue)
    for (const policy of types) this.#types.put(policy.type, policy)
  }

  committed({ queues, types, aliveAt, outages }: Changes): void {
    for (const { before, after } of queues) this.#queues.forget((after ?? before)?.name ?? '')
    for (const { type } of types) this.#types.forget(type)
    if (outages !== null) this.#life = null
    else if (aliveAt !== null && this.#life !== null) this.#life = { ...this.#life, aliveAt }
  }

  clear(): void {
    this.#life = null
    this.#queues.clear()
    this.#types.clear()
  }
}

export class Reliance {
  readonly #lastLook: LastLook
  #life: Life | null = null
  #notDueAt: Instant | null = null
  readonly #free = new Set<string>()
  readonly #queues = new Map<string, Queue | null>()
  readonly #types = new Map<string, TypePolicy | null>()

  constructor(lastLook: LastLook) {
    this.#lastLook = lastLook
  }

  /** Without the signs of life, which are part of all that is relied on, nothing is. */
  get isPossible(): boolean {
    return this.#lastLook.life !== null
  }

  /** Null if they are not remembered. */
  onLife(): Life | null {
    this.#life ??= this.#lastLook.life
    return this.#life
  }

  onNothingDueAt(now: Instant): void {
    this.onLife()
    this.#notDueAt = now
  }

  /** No job has one of these ids. */
  onFree(ids: readonly string[]): void {
    this.onLife()
    for (const id of ids) this.#free.add(id)
  }

  /** Those of these queues that exist; null, and nothing is relied on, if one is not remembered. */
  onQueues(names: readonly string[]): Queue[] | null {
    return this.#onRows(names, (name) => this.#lastLook.queue(name), this.#queues)
  }

  onTypes(types: readonly string[]): TypePolicy[] | null {
    return this.#onRows(types, (type) => this.#lastLook.type(type), this.#types)
  }

  /** What EXPECT_UNCHANGED has to find; null: nothing was relied on. */
  values(): readonly unknown[] | null {
    if (this.#life === null) return null
    return [
      this.#life.aliveAt,
      outagesText(this.#life.outages),
      this.#notDueAt,
      listOf(Array.from(this.#free, exact)),
      listOf(Array.from(this.#queues.keys(), exact)),
      textOf(this.#queues, ({ name, version, createdAt }) => [exact(name), version, createdAt]),
      listOf(Array.from(this.#types.keys(), exact)),
      textOf(this.#types, (policy) => {
        const [type, asked, caps, sent, updatedAt] = typeValues(policy)
        return [type, updatedAt, asked, caps, sent]
      }),
    ]
  }

  #onRows<Row>(
    names: readonly string[],
    recall: (name: string) => Row | null | undefined,
    all: Map<string, Row | null>,
  ): Row[] | null {
    const rows = new Map<string, Row | null>()
    for (const name of names) {
      const row = recall(name)
      if (row === undefined) return null
      rows.set(name, row)
    }
    this.onLife()
    for (const [name, row] of rows) all.set(name, row)
    return [...rows.values()].filter((row) => row !== null)
  }
}

/** The rows that exist as EXPECT_UNCHANGED puts them together: each behind its name, in the order of the names' bytes. */
function textOf<Row>(
  rows: ReadonlyMap<string, Row | null>,
  cellsOf: (row: Row) => readonly [name: string, ...(string | number)[]],
): string | null {
  const found = [...rows.values()].filter((row) => row !== null).map(cellsOf)
  if (found.length > 1) found.sort(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  return found.length === 0 ? null : found.map((cells) => cells.join(' ')).join(';')
}
