/** Handlers with durable steps and sleeps: what they do, and what is promised of it. The disk says what is stored. */
import { SleepingError } from '../../../packages/sdk/src/errors.ts'
import type { Context } from '../../../packages/sdk/src/attempt/context.ts'
import type { Chance } from '../chance.ts'
import { nameOf, short, type AttemptRecord } from './ledger.ts'
import type { Scene } from './scene.ts'

export interface StepPlan {
  readonly kind: 'step' | 'sleep'
  readonly ms: number
}

export function stepsFor(chance: Chance): StepPlan[] {
  return Array.from({ length: chance.between(2, 4) }, (): StepPlan => {
    const sleeps = chance.happens(0.35)
    return sleeps ? { kind: 'sleep', ms: chance.length(250, 6_000) } : { kind: 'step', ms: chance.length(0, 1_500, 50) }
  })
}

export interface StepStage {
  readonly scene: Scene
  readonly attempt: AttemptRecord
  readonly context: Context
  /** Lets so much time pass, or less if the signal ends it. */
  readonly pass: (ms: number, signal: AbortSignal) => Promise<void>
  /** The worker is dead: what its code does is not seen by anyone. */
  readonly isDead: () => boolean
}

export async function runSteps(stage: StepStage, steps: readonly StepPlan[]): Promise<void> {
  for (const [index, { kind, ms }] of steps.entries()) {
    const name = `${kind}-${String(index)}`
    if (kind === 'step') await runStep(stage, name, ms)
    else await sleepIn(stage, name, ms)
  }
}

async function runStep(stage: StepStage, name: string, ms: number): Promise<void> {
  const { scene, attempt, context, pass, isDead } = stage
  const { lease } = await context.step(name, async (signal) => {
    checkBegin(stage, name)
    await pass(ms, signal)
    return { lease: attempt.lease }
  })
  if (isDead()) return
  const stored = scene.ledger.steps.get(attempt.jobId)?.get(name)
  const result = stored?.result as { readonly lease?: number } | undefined
  if (result?.lease !== lease)
    scene.blame(
      'stepStored',
      `${name} of ${nameOf(attempt)} gave the result of lease ${String(lease)}; stored is ${JSON.stringify(stored)}`,
    )
}

function checkBegin({ scene, attempt, isDead }: StepStage, name: string): void {
  const { world, tally, tell, blame } = scene
  if (isDead()) return
  tally.add('steps: begun')
  tell(() => `${attempt.workerId}: ${name} of ${short(attempt.jobId)}#${String(attempt.lease)} begins`)
  if (attempt.storedBefore.has(name))
    blame('stepOnce', `${name} runs in ${nameOf(attempt)}, and was stored before that was handed out`)
  const leftMs = attempt.softAt - world.clock.wallMs()
  if (leftMs <= 0)
    blame('stepBudget', `${name} of ${nameOf(attempt)} begins ${String(-leftMs)} ms after the attempt had to stop`)
}

async function sleepIn({ scene, attempt, context, isDead }: StepStage, name: string, ms: number): Promise<void> {
  try {
    await context.sleep(name, { ms })
  } catch (error) {
    if (error instanceof SleepingError) scene.tally.add('steps: fell asleep')
    throw error
  }
  if (isDead()) return
  const now = scene.world.clock.wallMs()
  const to = scene.ledger.steps.get(attempt.jobId)?.get(name)?.to ?? Infinity
  scene.tally.add('steps: woken')
  if (now < to) scene.blame('sleepInFull', `${name} of ${nameOf(attempt)} ends ${String(to - now)} ms before its time`)
  if (now >= attempt.totalAt)
    scene.blame(
      'sleepWithinTotal',
      `${name} of ${nameOf(attempt)} ends ${String(now - attempt.totalAt)} ms after the total`,
    )
}
