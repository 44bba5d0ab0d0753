import { OjsError } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import type { Meters } from './meters.ts'

/** Counts commits, and reports that came late. */
export function metrics({ meters }: { readonly meters: Meters }): Feature {
  return {
    onCommit: (committed) => {
      meters.committed(committed)
    },
    onRefusal: (command, error) => {
      if (!(error instanceof OjsError)) return
      const reason = error.details['reason']
      if (error.code === 'conflict' && typeof reason === 'string') meters.late(command, reason)
    },
  }
}
