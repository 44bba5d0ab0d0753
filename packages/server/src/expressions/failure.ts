/**
 * What JSONata throws, as one of our errors. Its own messages quote the data, so we do not use them: we say what went
 * wrong by its code, which function or operator it was, and where.
 */
import { ExpressionError, type ExpressionErrorCode } from '../engine/expressions.ts'

interface Thrown {
  readonly code?: unknown
  readonly position?: unknown
  readonly token?: unknown
  readonly value?: unknown
  readonly index?: unknown
  readonly message?: unknown
}

/** By JSONata's code. `%` stands for the function or operator, `#` for the number of the argument. */
const MEANINGS: Readonly<Record<string, readonly [ExpressionErrorCode, string]>> = {
  S0101: ['JN_PARSE_ERROR', 'A string is not closed.'],
  S0102: ['JN_PARSE_ERROR', 'A number is out of range.'],
  S0103: ['JN_PARSE_ERROR', 'There is no such escape in a string.'],
  S0104: ['JN_PARSE_ERROR', '\\u must be followed by four hexadecimal digits.'],
  S0105: ['JN_PARSE_ERROR', 'A name in backquotes is not closed.'],
  S0106: ['JN_PARSE_ERROR', 'A comment is not closed.'],
  S0201: ['JN_PARSE_ERROR', 'Unexpected % after the end of the expression.'],
  S0202: ['JN_PARSE_ERROR', 'Unexpected %.'],
  S0203: ['JN_PARSE_ERROR', 'The expression ends too early.'],
  S0204: ['JN_PARSE_ERROR', 'There is no operator %.'],
  S0207: ['JN_PARSE_ERROR', 'The expression ends too early.'],
  S0211: ['JN_PARSE_ERROR', '% needs something to its left (equality is =, not ==).'],
  S0212: ['JN_PARSE_ERROR', 'Only a variable can stand to the left of :=.'],
  S0213: ['JN_PARSE_ERROR', 'A literal cannot be a step of a path.'],
  S0217: ['JN_PARSE_ERROR', 'There is no parent to refer to here.'],
  S0302: ['JN_PARSE_ERROR', 'A regular expression is not closed.'],
  T0410: ['JN_TYPE_MISMATCH', 'Argument # of $% has the wrong type.'],
  T0411: ['JN_TYPE_MISMATCH', 'The context has the wrong type for argument # of $%.'],
  T0412: ['JN_TYPE_MISMATCH', 'Argument # of $% is a list of the wrong type.'],
  T1003: ['JN_TYPE_MISMATCH', 'A key of an object must be a string.'],
  T1005: ['JN_TYPE_MISMATCH', '% is not a function; $% is.'],
  T1006: ['JN_TYPE_MISMATCH', 'The value that is called is not a function.'],
  T1007: ['JN_TYPE_MISMATCH', '% is not a function; $% is.'],
  T1008: ['JN_TYPE_MISMATCH', 'The value that is called is not a function.'],
  T1010: ['JN_TYPE_MISMATCH', 'A function in place of a regular expression does not give matches.'],
  D1002: ['JN_TYPE_MISMATCH', 'Only a number can be negated.'],
  T2001: ['JN_TYPE_MISMATCH', 'To the left of % there must be a number.'],
  T2002: ['JN_TYPE_MISMATCH', 'To the right of % there must be a number.'],
  T2003: ['JN_TYPE_MISMATCH', 'A range must begin with a whole number.'],
  T2004: ['JN_TYPE_MISMATCH', 'A range must end with a whole number.'],
  T2006: ['JN_TYPE_MISMATCH', 'To the right of ~> there must be a function.'],
  T2007: ['JN_TYPE_MISMATCH', 'The values to sort by must be all numbers or all strings.'],
  T2008: ['JN_TYPE_MISMATCH', 'A value to sort by must be a number or a string.'],
  T2009: ['JN_TYPE_MISMATCH', 'On both sides of % there must be numbers, or strings.'],
  T2010: ['JN_TYPE_MISMATCH', 'On both sides of % there must be numbers, or strings.'],
  T2011: ['JN_TYPE_MISMATCH', 'The update of a transform must be an object.'],
  T2012: ['JN_TYPE_MISMATCH', 'The names that a transform deletes must be strings.'],
  D1001: ['JN_FUNCTION_ERROR', 'A number is out of range.'],
  D1004: ['JN_FUNCTION_ERROR', 'A regular expression matches the empty string, again and again.'],
  D1009: ['JN_FUNCTION_ERROR', 'Two members of an object have the same key.'],
  D1011: ['JN_MAX_EVAL_TIME_EXCEEDED', 'The expression is nested too deeply while it runs.'],
  D1012: ['JN_MAX_EVAL_TIME_EXCEEDED', 'The expression took too long.'],
  D1013: ['JN_UNSUPPORTED_SYNTAX', 'A key that begins with _jsonata_ is reserved.'],
  D2014: ['JN_MAX_RESULT_SIZE_EXCEEDED', 'A range is too long.'],
  D2015: ['JN_MAX_RESULT_SIZE_EXCEEDED', 'A list is too long.'],
  D3030: ['JN_FUNCTION_ERROR', 'This is not a number for $number.'],
  D3070: ['JN_FUNCTION_ERROR', '$sort without a comparison takes all numbers or all strings.'],
  D3110: ['JN_FUNCTION_ERROR', 'This is not a date and time for $toMillis (ISO 8601).'],
  D3137: ['JN_FUNCTION_ERROR', 'The expression raised an error.'],
  D3138: ['JN_FUNCTION_ERROR', '$single found more than one.'],
  D3139: ['JN_FUNCTION_ERROR', '$single found none.'],
  D3141: ['JN_FUNCTION_ERROR', 'An assertion of the expression does not hold.'],
}

const BY_LETTER: Readonly<Record<string, readonly [ExpressionErrorCode, string]>> = {
  S: ['JN_PARSE_ERROR', 'The expression does not parse.'],
  T: ['JN_TYPE_MISMATCH', 'A value has the wrong type.'],
  D: ['JN_FUNCTION_ERROR', '$% does not accept these arguments.'],
}

const INTERNAL = ['JN_ENGINE_INTERNAL_ERROR', 'The expression engine failed.'] as const

export function expressionError(thrown: unknown, literals: ReadonlySet<string> = new Set()): ExpressionError {
  if (thrown instanceof ExpressionError) return located(thrown)
  if (typeof thrown !== 'object' || thrown === null) return new ExpressionError(...INTERNAL, undefined, thrown)
  const { code, position, token, index, value, message } = thrown as Thrown
  const at = typeof position === 'number' ? position : undefined
  if (typeof code === 'string') {
    const [ours, template] = MEANINGS[code] ?? BY_LETTER[code.charAt(0)] ?? INTERNAL
    const name = typeof token === 'string' && token.length <= 40 ? token : 'it'
    const text = template.replaceAll('%', name).replaceAll('#', typeof index === 'number' ? String(index) : '')
    const said = isRaised(code) && typeof message === 'string' && literals.has(message) ? ` ${message}` : ''
    const isNull = ours === 'JN_TYPE_MISMATCH' && value === null
    return new ExpressionError(
      isNull ? 'JN_NULL_DEREFERENCE' : ours,
      `${text}${isNull ? ' It is null.' : ''}${said}${where(at)} (${code})`,
      at,
    )
  }
  return fromNative(thrown, at)
}

const isRaised = (code: string): boolean => code === 'D3137' || code === 'D3141'

/** Errors of the machine: a stack that was too short, a member of nothing. */
function fromNative(thrown: object, at: number | undefined): ExpressionError {
  if (thrown instanceof RangeError)
    return new ExpressionError('JN_MAX_EVAL_TIME_EXCEEDED', `Something is nested too deeply${where(at)}`, at, thrown)
  if (thrown instanceof SyntaxError)
    return new ExpressionError('JN_PARSE_ERROR', 'A regular expression or signature does not parse.', at, thrown)
  if (thrown instanceof TypeError)
    return new ExpressionError('JN_TYPE_MISMATCH', `A value has the wrong type${where(at)}`, at, thrown)
  return new ExpressionError(...INTERNAL, at, thrown)
}

/** JSONata writes onto what passes through it where it was; the text should say so too. */
function located(error: ExpressionError): ExpressionError {
  const { position } = error as { position: unknown }
  if (typeof position !== 'number' || error.message.endsWith(where(position))) return error
  return new ExpressionError(error.code, `${error.message}${where(position)}`, position, error.cause)
}

const where = (position: number | undefined): string =>
  position === undefined ? '' : ` At character ${String(position)}.`
