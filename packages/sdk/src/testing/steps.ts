/** What a test sees of durable steps, and what it does to them. */
import { readStepDocument } from '@curfew/core'
import type { Client } from '../client/client.ts'
import { RequestError } from '../errors.ts'
import type { StepProbe } from '../attempt/steps.ts'

/** A step by its name, of jobs of any type or of one. */
export type StepRef = string | { readonly type: string; readonly name: string }

export interface StepView {
  readonly name: string
  /** The attempt that ran it. */
  readonly attempt: number
  readonly from: Date
  /** Of a sleep: when the job goes on. */
  readonly to: Date
  readonly kind: 'step' | 'sleep'
  readonly result: unknown
}

type Plan = { readonly do: 'fail'; readonly error: Error } | { readonly do: 'stall' }

const keyOf = (step: StepRef): string => (typeof step === 'string' ? step : `${step.type}\n${step.name}`)

export class StepScript {
  readonly #plans = new Map<string, Plan[]>()
  readonly #runs = new Map<string, number>()

  plan(step: StepRef, plan: Plan, times: number): void {
    const key = keyOf(step)
    const plans = Array.from({ length: times }, () => plan)
    this.#plans.set(key, [...(this.#plans.get(key) ?? []), ...plans])
  }

  runsOf(step: StepRef): number {
    return this.#runs.get(keyOf(step)) ?? 0
  }

  readonly before: StepProbe = async ({ type, name }, signal) => {
    const keys = [keyOf(name), keyOf({ type, name })]
    for (const key of keys) this.#runs.set(key, (this.#runs.get(key) ?? 0) + 1)
    const plan = keys.map((key) => this.#plans.get(key)?.shift()).find((found) => found !== undefined)
    if (plan?.do === 'fail') throw plan.error
    if (plan?.do === 'stall') await untilAborted(signal)
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error)
    })
  })
}

export async function storedSteps(client: Client, jobId: string): Promise<StepView[]> {
  const { steps } = readStepDocument(await savedState(client, jobId))
  return steps
    .map(({ name, attempt, from, to, isSleep, result }) => ({
      name,
      attempt,
      from: new Date(from),
      to: new Date(to),
      kind: isSleep ? ('sleep' as const) : ('step' as const),
      result,
    }))
    .sort((a, b) => a.from.getTime() - b.from.getTime())
}

/** Null: nothing is saved. */
async function savedState(client: Client, jobId: string): Promise<unknown> {
  try {
    const path = `/ojs/v1/jobs/${jobId}/checkpoint`
    const { state = null } = await client.connection.call<{ state?: unknown }>({
      method: 'GET',
      path,
      idempotent: true,
    })
    return state
  } catch (error) {
    if (error instanceof RequestError && error.status === 404) return null
    throw error
  }
}
