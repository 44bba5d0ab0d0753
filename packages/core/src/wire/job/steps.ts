/**
 * Steps as they are stored: in the state of the job's checkpoint, under a reserved member. The handler's own checkpoint
 * lies beside them, as `state`. A checkpoint of a handler without steps is stored as it is.
 */
import type { Json } from '../../job/job.ts'
import type { StepSpan, StoredStep } from '../../job/step.ts'
import { instant, iso } from '../../time/clock.ts'

export const STEPS_MEMBER = '$curfew_steps'

export interface StepDocument {
  readonly steps: readonly StoredStep[]
  /** What the handler saved by itself; null when it did not. */
  readonly state: unknown
}

export interface StepOnWire {
  readonly name: string
  readonly position: number
  readonly ordered?: true
  readonly attempt: number
  readonly from: string
  readonly to: string
  readonly sleep?: true
  readonly result?: unknown
}

/** From the parsed state of a checkpoint; what is not such a document is the handler's own. */
export function readStepDocument(saved: unknown): StepDocument {
  if (typeof saved !== 'object' || saved === null || !Object.hasOwn(saved, STEPS_MEMBER))
    return { steps: [], state: saved }
  const { [STEPS_MEMBER]: steps, state } = saved as { [STEPS_MEMBER]?: unknown; state?: unknown }
  if (!Array.isArray(steps)) return { steps: [], state: saved }
  return { steps: steps.filter(isStep).map(readStep), state: state ?? null }
}

export function writeStepDocument({ steps, state }: StepDocument): unknown {
  if (steps.length === 0) return state
  return { [STEPS_MEMBER]: steps.map(writeStep), ...(state === null ? {} : { state }) }
}

/** Without their results. `saved` is the state of the checkpoint; null: there is none. */
export function stepSpansIn(saved: Json | null): StepSpan[] {
  if (saved?.startsWith(`{"${STEPS_MEMBER}":`) !== true) return []
  const { steps } = readStepDocument(JSON.parse(saved) as unknown)
  return steps
    .map(({ name, attempt, from, to, isSleep }) => ({ name, attempt, from, to, isSleep }))
    .sort((a, b) => a.from - b.from)
}

function isStep(value: unknown): value is StepOnWire {
  if (typeof value !== 'object' || value === null) return false
  const { name, position, attempt, from, to } = value as Partial<Record<keyof StepOnWire, unknown>>
  return (
    typeof name === 'string' &&
    typeof position === 'number' &&
    typeof attempt === 'number' &&
    isMoment(from) &&
    isMoment(to)
  )
}

const isMoment = (value: unknown): boolean => typeof value === 'string' && !Number.isNaN(Date.parse(value))

function readStep({ name, position, ordered, attempt, from, to, sleep, ...rest }: StepOnWire): StoredStep {
  return {
    name,
    position,
    isOrdered: ordered === true,
    attempt,
    from: instant(Date.parse(from)),
    to: instant(Date.parse(to)),
    isSleep: sleep === true,
    ...('result' in rest ? { result: rest.result } : {}),
  }
}

function writeStep({ name, position, isOrdered, attempt, from, to, isSleep, ...rest }: StoredStep): StepOnWire {
  return {
    name,
    position,
    ...(isOrdered ? { ordered: true as const } : {}),
    attempt,
    from: iso(from),
    to: iso(to),
    ...(isSleep ? { sleep: true as const } : {}),
    ...('result' in rest && rest.result !== undefined ? { result: rest.result } : {}),
  }
}
