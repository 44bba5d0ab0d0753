/** The words of `explain`: limits, sources, causes and lateness as people read them. */
import type { Job } from './job.ts'
import type { CancelReason } from './lifecycle/change.ts'
import type { NoRetry } from './retry.ts'

export const seconds = (ms: number): string => `${String(ms / 1000)} s`

const SOURCES: Readonly<Record<string, string>> = { publish: 'job', type: 'job type', retry: 'retry policy' }

/** Who set a limit. */
export const sourceInWords = (source: string): string => SOURCES[source] ?? source

const CAUSES: Readonly<Record<CancelReason, string>> = {
  request: 'by a request',
  bulk: 'by a bulk action',
  replaced: 'replaced by another job for the same work',
  overlap: 'by its cron entry, which fired again while it was open',
  workflow_cancelled: 'its workflow was cancelled',
  workflow_timeout: 'the deadline of its workflow passed',
  journey_cancelled: 'its journey run was cancelled',
  journey_went_on: 'its journey run ended, or went on without it',
  subscription_deleted: 'its webhook subscription was deleted',
}

/** Who or what cancelled a job. */
export function causeInWords(reason: CancelReason, by: string | undefined): string {
  if (reason === 'replaced' && by !== undefined) return `replaced by ${by}, a job for the same work`
  // A reason that another version wrote is shown as it is.
  return (CAUSES as Readonly<Record<string, string>>)[reason] ?? reason
}

/** Why a job was not tried again. */
export function noRetryInWords({ retry, error }: Job, because: NoRetry, source?: string): string {
  switch (because) {
    case 'x_on_timeout':
      return `No retry: x_on_timeout is discard (${sourceInWords(source ?? 'default')}).`
    case 'max_attempts':
      return retry.maxAttempts <= 1
        ? 'No retry: its only attempt is used (max_attempts).'
        : `No retry: all ${String(retry.maxAttempts)} attempts are used (max_attempts).`
    case 'not_retryable':
      return 'No retry: the error was reported as not retryable.'
    case 'non_retryable_errors':
      return 'No retry: non_retryable_errors of its policy lists the error.'
    case 'error_code':
      return `No retry: the handler ended the job with the error code ${codeOf(error)}.`
    case 'total_timeout':
      return 'No retry: another attempt could not have ended within the total.'
  }
}

function codeOf(error: string | null): string {
  const { code } = JSON.parse(error ?? '{}') as { readonly code?: unknown }
  return typeof code === 'string' ? code : 'DISCARD'
}

/** Of a timeout that a worker reported too early to count as one. */
export const earlyInWords = (ms: number): string =>
  `reported ${seconds(ms)} before the soft deadline: an ordinary failure`

/** How late a decision was; a time in which the server was down is not charged to it. */
export function lateness({ overshootMs: overshoot = 0, lateMs: late = overshoot, downtimeMs: down = 0 }: Late): string {
  const decided = `decided ${String(late)} ms after the deadline`
  if (down === 0) return decided
  return `${decided}: the server was down for ${String(down)} ms of them, and ${String(overshoot)} ms are charged to the decision`
}

interface Late {
  readonly overshootMs?: number | undefined
  readonly lateMs?: number | undefined
  readonly downtimeMs?: number | undefined
}
