/**
 * How much one expression may ask for. Time is the limit that is promised; the others exist because what runs between
 * two looks at the clock is native code that cannot be interrupted, so that each single piece of it must be small. The
 * figures behind them are in docs/adr/0034.
 */
import { ExpressionError } from '../engine/expressions.ts'

/** Of the text. */
export const MAX_TEXT = 16_384
/** Of the syntax tree: deeper or larger ones are no expressions but attacks on the parser. */
export const MAX_TREE_DEPTH = 500
export const MAX_TREE_NODES = 20_000
/** Longer paths take the parser quadratic time; 700 steps take it 30 ms. */
export const MAX_DOTS = 700
export const MAX_BRACKETS = 1_500
export const MAX_PARENTS = 100
/** Characters the parser may copy for nested `?:` and `??`, each of which doubles its left side. */
export const MAX_PARSER_COPIES = 200_000
/** Variables bound with `@` and `#`: each is copied into each tuple. */
export const MAX_TUPLE_VARIABLES = 32

/** Work: one evaluated node is STEP, one character or item touched by a function is one. */
export const STEP = 100
export const MAX_WORK = 20_000_000
/** Nodes that are begun and not ended: recursion, and the members of one array or object. */
export const MAX_PENDING = 20_000
/** What an evaluation may build in all, in characters and items. */
export const MAX_ALLOCATION = 32_000_000

/** Of one string, in UTF-16 units. */
export const MAX_STRING = 262_144
/** Of an array that an expression builds. */
export const MAX_ITEMS = 10_000
/** Of any one value, roughly its length as JSON. Shared parts count as often as they appear: a value is a tree. */
export const MAX_WEIGHT = 1_048_576
export const MAX_DEPTH = 200
/** Of an array or object that is compared with `=`: comparing costs a microsecond for every few characters. */
export const MAX_COMPARED = 131_072
/** Of pictures (`[Y0001]-[M01]`, `#,##0.00`), and of texts that are read by one. */
export const MAX_PICTURE = 256

/** Of a regular expression: its length, and how many states it has when counted repetitions are written out. */
export const MAX_PATTERN = 1_000
export const MAX_PATTERN_STATES = 500
/** States times characters of one search; 300 000 take about 25 ms. */
export const MAX_SEARCH = 300_000

/** Compiled expressions that are kept, and how many nodes they may have in all: a node takes some 300 bytes. */
export const MAX_COMPILED = 1_000
export const MAX_COMPILED_NODES = 200_000

export interface EvaluationLimits {
  readonly maxEvalMs: number
  readonly maxOutputBytes: number
}

export const DEFAULT_LIMITS: EvaluationLimits = { maxEvalMs: 50, maxOutputBytes: 1_048_576 }

export function checkedLimits(given: Partial<EvaluationLimits> = {}): EvaluationLimits {
  const limits = { ...DEFAULT_LIMITS, ...given }
  for (const [name, value] of Object.entries(limits)) {
    if (!Number.isInteger(value) || value < 1)
      throw new ExpressionError('JN_CONFIG_INVALID', `expressions.${name} must be a whole number of at least 1.`)
  }
  return limits
}

export const tooLarge = (what: string): ExpressionError => new ExpressionError('JN_MAX_RESULT_SIZE_EXCEEDED', what)
export const tooMuch = (what: string): ExpressionError => new ExpressionError('JN_MAX_EVAL_TIME_EXCEEDED', what)
