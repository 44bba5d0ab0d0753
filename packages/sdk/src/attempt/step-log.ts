/**
 * Everything an attempt saves, on the worker's side: the steps and the handler's own checkpoint are one document, which is
 * stored as the checkpoint of the job.
 */
import { STEPS_MEMBER, writeStepDocument, type StoredStep } from '@curfew/core'
import { InputError, RequestError, StepError } from '../errors.ts'

export class StepLog {
  readonly #steps: Map<string, StoredStep>
  #state: unknown
  readonly #save: (document: unknown) => Promise<void>

  /** `save` resolves when the document, or a later one, is stored. */
  constructor(stored: readonly StoredStep[], state: unknown, save: (document: unknown) => Promise<void>) {
    this.#steps = new Map(stored.map((step) => [step.name, step]))
    this.#state = state
    this.#save = save
  }

  async checkpoint(state: unknown): Promise<void> {
    if (typeof state === 'object' && state !== null && Object.hasOwn(state, STEPS_MEMBER))
      throw new InputError(
        `A checkpoint has no member ${STEPS_MEMBER}: the steps of the job are stored under that name.`,
        {
          field: STEPS_MEMBER,
        },
      )
    const before = this.#state
    this.#state = state
    try {
      await this.#save(this.#document())
    } catch (error) {
      // What was refused must not go along with what is saved next.
      if (this.#state === state) this.#state = before
      throw error
    }
  }

  async step(step: StoredStep): Promise<void> {
    const { name } = step
    if (this.#steps.has(name))
      throw new StepError(
        'step_repeated',
        name,
        `Step "${name}" is stored already; a name stands for one step of the job.`,
      )
    this.#steps.set(name, step)
    try {
      await this.#save(this.#document())
    } catch (error) {
      this.#steps.delete(name)
      throw error instanceof RequestError && error.status === 413 ? tooLarge(step, error) : error
    }
  }

  #document(): unknown {
    return writeStepDocument({ steps: [...this.#steps.values()], state: this.#state })
  }
}

function tooLarge({ name, result }: StoredStep, cause: RequestError): StepError {
  const size = JSON.stringify(result ?? null).length
  const most = typeof cause.details['max_bytes'] === 'number' ? ` of ${String(cause.details['max_bytes'])} bytes` : ''
  return new StepError(
    'steps_too_large',
    name,
    `Step "${name}" was run, and its result (${String(size)} characters) cannot be stored: all steps of a job and its ` +
      `checkpoint share the server's limit${most} for a checkpoint. Store the data elsewhere and return a reference to it.`,
    { cause },
  )
}
