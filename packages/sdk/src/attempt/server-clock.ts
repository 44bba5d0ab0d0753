import { instant, type Host, type Instant } from '@curfew/core'
import type { StepFacts } from './facts.ts'

/** Now on the server's clock, as far as it is known: a worker knows it by the claim. */
export function serverNow(host: Host, known: Pick<StepFacts, 'serverOffsetMs'> | undefined): Instant {
  const offsetMs = known?.serverOffsetMs ?? null
  return instant(offsetMs === null ? host.wallMs() : host.monotonicMs() + offsetMs)
}
