/** Which languages there are. One that is missing or unknown is refused by name; none ever stands in for another. */
import { ExpressionError } from '../engine/expressions.ts'

export const AVAILABLE = ['jsonata'] as const

/** Named by the DSL, and not here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  dataweave: 'There is no DataWeave for Node.js; docs/expressions.md shows how to say the same in JSONata.',
  jolt: 'Write the mapping as a JSONata object instead.',
  jq: 'docs/expressions.md shows how to say the same in JSONata.',
}

export function checkLanguage(lang: unknown): asserts lang is (typeof AVAILABLE)[number] {
  const available = `available: ${AVAILABLE.join(', ')}`
  if (typeof lang !== 'string' || lang === '')
    throw new ExpressionError('JN_CONFIG_INVALID', `An expression must name its language (lang); ${available}.`)
  if ((AVAILABLE as readonly string[]).includes(lang)) return
  const known = Object.hasOwn(ELSEWHERE, lang) ? ELSEWHERE[lang] : undefined
  if (known !== undefined)
    throw new ExpressionError('JN_CONFIG_INVALID', `${lang}: engine not available here; ${available}. ${known}`)
  throw new ExpressionError('JN_CONFIG_INVALID', `There is no engine of this name; ${available}.`)
}

export function checkedText(text: unknown): string {
  if (typeof text !== 'string' || text.trim() === '')
    throw new ExpressionError('JN_PARSE_ERROR', 'An expression must be a text that is not empty.', 0)
  return text
}

/** A predicate is true or false. Nothing is neither: who asks for something that may be missing asks `$exists`. */
export function truth(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  if (value === null)
    throw new ExpressionError('JN_PATH_NOT_FOUND', 'The predicate gives nothing (is a path missing? see $exists).')
  throw new ExpressionError('JN_TYPE_MISMATCH', 'The predicate must give true or false.')
}
