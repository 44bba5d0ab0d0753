/** Expressions as the settings ask for them. */
import type { Expressions } from '../engine/expressions.ts'
import { InProcessExpressions, type ExpressionPorts } from './in-process.ts'
import type { EvaluationLimits } from './limits.ts'
import { ThreadExpressions } from './thread.ts'

export interface ExpressionSettings extends Partial<EvaluationLimits> {
  /** `thread`: beside the server, ended when it does not answer. For definitions by people one does not trust. */
  readonly isolation?: 'in-process' | 'thread'
}

export function openExpressions(ports: ExpressionPorts, settings: ExpressionSettings = {}): Expressions {
  const { isolation = 'in-process', ...limits } = settings
  return isolation === 'thread' ? new ThreadExpressions(ports, limits) : new InProcessExpressions(ports, limits)
}
