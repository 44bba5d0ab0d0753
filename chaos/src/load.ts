/** The jobs of a run: every limit occurs, short ones above all, and how handlers behave is drawn with the job. */
import { randomUUID } from 'node:crypto'
import type { Random } from '@curfew/core'

/** The longest a job may live; a run waits this long for the last ones. */
export const MAX_TOTAL_MS = 20_000
export const QUEUES = ['plain', 'sdk'] as const
export const JOB_TYPE = 'chaos.job'

/** What its handler does; sent as the job's argument. */
export interface Behaviour {
  readonly does: 'finish' | 'fail' | 'hang' | 'checkpoint'
  readonly forMs: number
}

export type JobRequest = Readonly<Record<string, unknown>> & { readonly id: string }

export function drawJob(random: Random): JobRequest {
  const draw = (least: number, most: number): number => Math.round(least + random() * (most - least))
  const luck = random()
  const does = luck < 0.65 ? 'finish' : luck < 0.75 ? 'fail' : luck < 0.88 ? 'hang' : 'checkpoint'
  const behaviour: Behaviour = { does, forMs: random() < 0.6 ? draw(0, 30) : draw(30, 1_500) }
  const maybe = (share: number, fields: object): object => (random() < share ? fields : {})
  const timeoutMs = draw(400, 3_000)
  return {
    id: uuidV7(),
    type: JOB_TYPE,
    queue: QUEUES[random() < 0.5 ? 0 : 1],
    args: [behaviour],
    timeout_ms: timeoutMs,
    ...maybe(0.7, { grace_period_ms: draw(0, 600) }),
    total_timeout_ms: random() < 0.3 ? timeoutMs + draw(100, 3_000) : draw(5_000, MAX_TOTAL_MS),
    ...maybe(0.2, { enqueue_ttl_ms: draw(300, 4_000) }),
    ...maybe(0.25, { heartbeat_timeout_ms: draw(1_500, 4_000) }),
    ...maybe(0.2, { visibility_timeout_ms: draw(1_000, 4_000) }),
    ...maybe(0.1, { x_on_timeout: 'discard' }),
    retry: { max_attempts: draw(1, 4), initial_interval_ms: draw(50, 400), max_interval_ms: 500 },
  }
}

function uuidV7(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
