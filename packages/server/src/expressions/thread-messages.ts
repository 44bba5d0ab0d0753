/** What the server and its thread of expressions say to each other. */
import type { ExpressionErrorCode } from '../engine/expressions.ts'

export type Question =
  | { readonly t: 'check'; readonly lang: unknown; readonly text: unknown }
  | {
      readonly t: 'evaluate'
      readonly lang: string
      readonly text: string
      readonly document: unknown
      readonly budgetMs: number
      readonly nowMs: number
      readonly seed: number
    }

export type Answer =
  | { readonly ok: true; readonly value: unknown }
  | {
      readonly ok: false
      readonly code: ExpressionErrorCode
      readonly message: string
      readonly position: number | undefined
    }
