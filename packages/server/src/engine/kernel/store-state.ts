/** Whether the store serves. An error passes; damage does not: it is logged once, and stays until the server is started again. */
import { StoreDamaged, StoreUnavailable } from '../../store/store.ts'
import type { Log } from './context.ts'

export class StoreState {
  readonly #log: Log
  readonly #onDamage: (damage: StoreDamaged) => void
  readonly #onError: () => void
  readonly #onRecovery: () => void
  #reason: string | null = null
  #damage: StoreDamaged | null = null

  constructor(
    log: Log,
    hooks: { onDamage: (damage: StoreDamaged) => void; onError: () => void; onRecovery: () => void },
  ) {
    this.#log = log
    this.#onDamage = hooks.onDamage
    this.#onError = hooks.onError
    this.#onRecovery = hooks.onRecovery
  }

  /** Why the store cannot serve at the moment, if so. */
  get reason(): string | null {
    return this.#reason
  }

  get damage(): StoreDamaged | null {
    return this.#damage
  }

  get state(): 'serves' | 'fails' | 'damaged' {
    if (this.#reason === null) return 'serves'
    return this.#damage === null ? 'fails' : 'damaged'
  }

  served(): void {
    if (this.#damage !== null || this.#reason === null) return
    this.#log.info({}, 'the store serves again')
    this.#reason = null
    this.#onRecovery()
  }

  failed(error: unknown): void {
    if (this.#damage !== null) return
    if (error instanceof StoreDamaged) {
      this.#damaged(error)
      return
    }
    const reason = error instanceof StoreUnavailable ? error.reason : 'unexpected error'
    if (this.#reason !== reason)
      this.#log.error({ reason, err: error }, 'the store cannot serve; answering 503 until it can')
    this.#reason = reason
    this.#onError()
  }

  #damaged(damage: StoreDamaged): void {
    this.#damage = damage
    const { reason, file, advice } = damage
    this.#log.error(
      { reason, ...(file === null ? {} : { file }), advice, err: damage },
      'stored data is damaged; refusing every write with 503 until the server is started again on sound data',
    )
    this.#reason = reason
    this.#onDamage(damage)
  }
}
