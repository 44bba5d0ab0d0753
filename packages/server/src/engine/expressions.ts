/**
 * Expressions, as the engine sees them: a text in some language is checked when a definition is deployed, and evaluated
 * against a document while a run goes on. An evaluation is pure and bounded: it ends within its budget, with plain JSON
 * or with an `ExpressionError`. What it says goes into outcomes and logs, so it names what and where, never the data.
 */

/** What can go wrong with an expression. A closed list. */
export const EXPRESSION_ERRORS = [
  'JN_PARSE_ERROR',
  'JN_UNSUPPORTED_SYNTAX',
  'JN_UNKNOWN_VARIABLE',
  'JN_PATH_NOT_FOUND',
  'JN_TYPE_MISMATCH',
  'JN_FUNCTION_ERROR',
  'JN_NULL_DEREFERENCE',
  'JN_MAX_EVAL_TIME_EXCEEDED',
  'JN_MAX_RESULT_SIZE_EXCEEDED',
  'JN_ENGINE_INTERNAL_ERROR',
  'JN_CONFIG_INVALID',
] as const

export type ExpressionErrorCode = (typeof EXPRESSION_ERRORS)[number]

export class ExpressionError extends Error {
  readonly code: ExpressionErrorCode
  /** Where in the text, as far as it is known: characters from 0, just behind what is wrong. */
  readonly position: number | undefined

  constructor(code: ExpressionErrorCode, message: string, position?: number, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'ExpressionError'
    this.code = code
    this.position = position
  }
}

export interface EvaluationTerms {
  /** What is left of the caller's time, from now. The engine's own limit for one evaluation holds besides. */
  readonly budgetMs: number
}

export interface Expressions {
  /** Refuses, with an ExpressionError, what could not be evaluated: an unknown language, a text that does not parse. */
  check(lang: unknown, text: unknown): Promise<void>
  /** The value as plain JSON; `null` where the expression finds nothing. The document is neither kept nor changed. */
  evaluate(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<unknown>
  /** As `evaluate`, for predicates: anything but true and false is an error. */
  holds(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<boolean>
  /** Ends what was begun; nothing is evaluated afterwards. */
  close(): Promise<void>
}

const noEngine = (): Promise<never> =>
  Promise.reject(new ExpressionError('JN_CONFIG_INVALID', 'this server evaluates no expressions'))

/** For a server without expressions. */
export const evaluatesNothing: Expressions = {
  check: noEngine,
  evaluate: noEngine,
  holds: noEngine,
  close: () => Promise.resolve(),
}
