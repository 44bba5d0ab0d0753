/** Queues that share their workers. */
import { everyPage, get, part, type Caller, type Signalled } from './operators.ts'
import type { PoolView } from '../wire/queues.ts'

export interface PoolSpec {
  /** Names, or names with their weights. */
  readonly queues: readonly string[] | Readonly<Record<string, { readonly weight?: number }>>
  /** `round-robin` unless it is given. */
  readonly strategy?: 'round-robin' | 'weighted' | 'least-loaded' | 'strict'
}

const PATH = '/ojs/v1/admin/pools'

export class Pools {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  list(options: Signalled = {}): Promise<PoolView[]> {
    return everyPage<PoolView>(this.#caller, PATH, 'items', options)
  }

  async get(name: string, options: Signalled = {}): Promise<PoolView> {
    return (await get<{ pool: PoolView }>(this.#caller, `${PATH}/${part(name)}`, options)).pool
  }

  /** Makes the pool, or replaces the one with this name. */
  async set(name: string, { queues, strategy }: PoolSpec, { signal }: Signalled = {}): Promise<PoolView> {
    const call = { method: 'PUT', path: `${PATH}/${part(name)}`, body: { queues, strategy }, idempotent: true } as const
    return (await this.#caller.call<{ pool: PoolView }>({ ...call, signal })).pool
  }

  async delete(name: string, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: `${PATH}/${part(name)}`, idempotent: false, signal })
  }
}
