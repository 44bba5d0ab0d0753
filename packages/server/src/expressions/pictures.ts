/**
 * Pictures: how dates and numbers are written and read (`[Y0001]-[M01]-[D01]`, `#,##0.00`). JSONata pads to any width a
 * picture names, and reads dates with a native regular expression that it makes of the picture: `[f][f][f]` becomes
 * `([0-9]+)([0-9]+)([0-9]+)`, which takes cubic time to say no. So widths are limited, and a part of open length must be
 * followed by something that cannot belong to it; then there is only one way to read a text.
 */
import { ExpressionError } from '../engine/expressions.ts'
import { MAX_PICTURE } from './limits.ts'

const refused = (message: string): ExpressionError => new ExpressionError('JN_FUNCTION_ERROR', message)

export function checkLength(what: string, text: string): void {
  if (text.length > MAX_PICTURE) throw refused(`${what} is longer than ${String(MAX_PICTURE)} characters.`)
}

/** A part of a picture: what it may begin with, and what it goes on with if its length is open. */
interface Part {
  readonly begins: string
  readonly goesOn: RegExp | null
  /** How JSONata sees it. Of two numbers side by side the first has the width of its picture; a fraction has none. */
  readonly as: 'literal' | 'name' | 'number' | 'fraction' | 'other number' | 'zone'
}

const DIGITS = /[0-9]/
const LETTERS = /[a-zA-Z]/
const WORDS = /[a-zA-Z, -]/

export function checkDatePicture(picture: string): readonly Part[] {
  checkLength('The picture', picture)
  const parts: Part[] = []
  // Doubled brackets stand for themselves.
  for (const [whole, marker] of picture.matchAll(/\[\[|\]\]|\[([^\]]*)\]|[^[\]]+|[[\]]/g)) {
    if (marker === undefined) parts.push({ begins: whole.charAt(0), goesOn: null, as: 'literal' })
    else parts.push(markerPart(marker.replace(/\s+/g, '')))
  }
  return parts
}

function markerPart(marker: string): Part {
  if (marker.length > 32) throw refused('A part of the picture is too long.')
  const comma = marker.lastIndexOf(',')
  if (comma !== -1 && /[0-9]{3}/.test(marker.slice(comma))) throw refused('The picture asks for a width above 99.')
  const component = marker.charAt(0)
  const presentation = marker.slice(1, comma === -1 ? undefined : comma)
  const isNamed = presentation === '' ? 'FPCE'.includes(component) : /^[nN]/.test(presentation)
  if (component === 'Z') return { begins: '+', goesOn: DIGITS, as: 'zone' }
  if (component === 'z') return { begins: 'G', goesOn: DIGITS, as: 'zone' }
  if (component === 'f') return { begins: '0', goesOn: DIGITS, as: isNamed ? 'name' : 'fraction' }
  if (isNamed || component === 'P') return { begins: 'a', goesOn: LETTERS, as: 'name' }
  if (/^(W|w|Ww)[acot]?$/.test(presentation)) return { begins: 'a', goesOn: WORDS, as: 'other number' }
  if (/^[AaIi][acot]?$/.test(presentation)) return { begins: 'a', goesOn: LETTERS, as: 'other number' }
  // An ordinal ends with its letters, as in 1st.
  return { begins: '0', goesOn: /.o$/.test(presentation) ? null : DIGITS, as: 'number' }
}

/**
 * For reading: each part of open length has an end that can be seen. Numbers in words have none, so there may be two of
 * them at most, and the text must be short.
 */
export function checkParsePicture(picture: string, text: string): void {
  const parts = checkDatePicture(picture)
  const words = parts.filter((part) => part.goesOn === WORDS).length
  if (words > 2 || (words > 0 && text.length > MAX_PICTURE / 2))
    throw refused('There are too many words to be read by the picture.')
  parts.forEach((part, at) => {
    const next = parts[at + 1]
    if (part.goesOn === null || part.goesOn === WORDS || next === undefined) return
    const hasWidth = part.as === 'number' && ['number', 'fraction', 'other number'].includes(next.as)
    if (!hasWidth && part.goesOn.test(next.begins))
      throw refused('The picture has parts of open length side by side; put something between them.')
  })
}

const NUMBER_OPTIONS = /^[^\n]{1,16}$/

export function checkNumberPicture(picture: string, options: unknown): void {
  checkLength('The picture', picture)
  if (options === undefined) return
  for (const value of Object.values(options as object)) {
    if (typeof value !== 'string' || !NUMBER_OPTIONS.test(value))
      throw refused('The options of $formatNumber must be short strings.')
  }
}

/** Roman numerals grow with the number itself, and JSONata writes them one letter at a time. */
export function checkInteger(value: number, picture: string): void {
  checkLength('The picture', picture)
  if (/^[Ii](;|$)/.test(picture) && Math.abs(value) >= 100_000)
    throw refused('The number is too large for Roman numerals.')
}

const TIMEZONE = /^[+-]?[0-9]{1,4}$/

export function checkTimezone(timezone: string | undefined): void {
  if (timezone !== undefined && !TIMEZONE.test(timezone)) throw refused('The time zone must look like +0130.')
}

/** What a date can be at all. */
export function checkInstant(ms: number): void {
  if (!(Math.abs(ms) <= 8.64e15 - 86_400_000)) throw refused('The number of milliseconds is not a date.')
}
