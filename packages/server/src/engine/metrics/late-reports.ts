/** Reports that were refused because the attempt they were about was over. */
import { OjsError } from '@curfew/core'

export const LATE_OPERATIONS = ['ack', 'nack', 'progress', 'checkpoint', 'step']

export interface Conflict {
  readonly reason: string
  readonly jobId: string | null
}

/** The conflict for which a command was refused; null for every other error. */
export function conflictOf(error: unknown): Conflict | null {
  if (!(error instanceof OjsError) || error.code !== 'conflict') return null
  const { reason, job_id: jobId } = error.details
  return typeof reason === 'string' ? { reason, jobId: typeof jobId === 'string' ? jobId : null } : null
}

export const isLateReport = (command: string, error: unknown): boolean =>
  LATE_OPERATIONS.includes(command) && conflictOf(error) !== null
