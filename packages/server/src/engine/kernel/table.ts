/** The rows of one kind that a unit of work has found: as they are stored, and as they are by now. */
import { broken } from '@curfew/core'
import type { Change } from '../../store/store.ts'

const NONE: readonly string[] = []

export interface Row<T> {
  stored: T | null
  current: T | null
}

/** How a row reads once it was saved; null: it has to be found again. */
export type AfterSave<T> = (before: T | null, after: T | null) => Row<T> | null

export class Table<T> {
  readonly #what: string
  readonly #rows = new Map<string, Row<T>>()
  /** Ids in the order in which they were first written: places at the tail are given in this order. */
  readonly #written = new Set<string>()

  readonly #afterSave: AfterSave<T>

  /** `what`: the kind of row, for messages. */
  constructor(what: string, afterSave: AfterSave<T>) {
    this.#what = what
    this.#afterSave = afterSave
  }

  has(id: string): boolean {
    return this.#rows.has(id)
  }

  row(id: string): Row<T> {
    const row = this.#rows.get(id)
    if (row === undefined) throw broken(`${this.#what} ${id} is looked at without having been loaded`)
    return row
  }

  /** What was found is taken over, unless it is known already; what is known may have been decided about since. */
  found(id: string, value: T | null): Row<T> {
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    const row: Row<T> = { stored: value, current: value }
    this.#rows.set(id, row)
    return row
  }

  missing(ids: readonly string[]): readonly string[] {
    return ids.every((id) => this.#rows.has(id)) ? NONE : [...new Set(ids)].filter((id) => !this.#rows.has(id))
  }

  written(id: string): void {
    this.#written.add(id)
  }

  changes(): (Change<T> & { readonly id: string })[] {
    const changed: (Change<T> & { id: string })[] = []
    for (const id of this.#written) {
      const row = this.#rows.get(id)
      if (row !== undefined && row.stored !== row.current) changed.push({ id, before: row.stored, after: row.current })
    }
    return changed
  }

  /** The changes were saved. */
  saved(): void {
    for (const id of this.#written) {
      const row = this.#rows.get(id)
      if (row === undefined || row.stored === row.current) continue
      const fresh = this.#afterSave(row.stored, row.current)
      if (fresh === null) this.#rows.delete(id)
      else this.#rows.set(id, fresh)
    }
    this.#written.clear()
  }
}

/** Saving raises the version by one. */
export function nextVersion<T extends { readonly version: number }>(before: T | null, after: T | null): Row<T> {
  const row = after === null ? null : { ...after, version: (before?.version ?? 0) + 1 }
  return { stored: row, current: row }
}

/** Rows without a version read as they were written. */
export const asWritten = <T>(_before: T | null, after: T | null): Row<T> => ({ stored: after, current: after })
