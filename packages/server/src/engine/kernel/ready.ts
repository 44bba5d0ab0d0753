/** The jobs that a commit leaves available, by queue and tenant, and how far polls have been offered them. */
import type { StateChange } from '../../store/store.ts'

interface Kind {
  readonly queue: string
  readonly tenant: string | null
  readonly ids: Set<string>
  /** Polls that were served and took none of these. */
  passed: number
}

export class Ready {
  readonly #kinds = new Map<string, Kind>()
  readonly #kindOf = new Map<string, Kind>()
  readonly #served = new Set<object>()

  /** In the order in which they were decided: a job that is claimed after it has become available is not left. */
  note({ id, queue, tenant, to }: Pick<StateChange, 'id' | 'queue' | 'tenant' | 'to'>): void {
    if (to === 'available') this.#add(id, queue, tenant)
    else this.#kindOf.get(id)?.ids.delete(id)
  }

  #add(id: string, queue: string, tenant: string | null): void {
    const key = tenant === null ? queue : `${queue} ${tenant}`
    let kind = this.#kinds.get(key)
    if (kind === undefined) this.#kinds.set(key, (kind = { queue, tenant, ids: new Set(), passed: 0 }))
    kind.ids.add(id)
    this.#kindOf.set(id, kind)
  }

  /** Those that are left for other polls. A poll that took nothing counts for one: another would find as little. */
  *kinds(): Generator<{ readonly queue: string; readonly tenant: string | null; readonly left: number }> {
    for (const { queue, tenant, ids, passed } of this.#kinds.values()) yield { queue, tenant, left: ids.size - passed }
  }

  /** This poll has looked at what is left of this queue and tenant; `took`: it was given some job. */
  offered(poll: object, queue: string, tenant: string | null, took: boolean): void {
    this.#served.add(poll)
    const kind = this.#kinds.get(tenant === null ? queue : `${queue} ${tenant}`)
    if (kind !== undefined && !took) kind.passed += 1
  }

  hasServed(poll: object): boolean {
    return this.#served.has(poll)
  }
}
