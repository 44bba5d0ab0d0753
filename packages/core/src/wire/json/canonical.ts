/**
 * JSON in one spelling, so that equal values have equal texts. It follows RFC 8785 (sorted keys, no space, numbers and strings
 * in one spelling) with two additions: strings are brought to NFC, and a number that no double holds keeps all its digits,
 * so that two large ids never look like one.
 */
import type { Json } from '../../job/job.ts'
import { elementsOf, membersOf } from './json-text.ts'

/** JSON text in its one spelling. Expects text that `JSON.parse` has accepted. */
export function canonical(json: Json): string {
  const value = json.trim()
  switch (value[0]) {
    case '{':
      return objectText([...membersOf(value)].map(([key, member]) => [key, canonical(member.value)] as const))
    case '[':
      return `[${elementsOf(value).map(canonical).join(',')}]`
    case '"':
      return stringText(JSON.parse(value) as string)
    case 't':
    case 'f':
    case 'n':
      return value
    default:
      return numberText(value)
  }
}

/** Lone surrogates come out as escapes, so that hashing the text as UTF-8 keeps them apart. */
const stringText = (value: string): string => JSON.stringify(value.normalize('NFC'))

/** Sorted by key. Keys that only NFC makes equal stay two, in the order of how they were spelled. */
export function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  const spelled = members.map(([key, value]) => ({ key, name: key.normalize('NFC'), value }))
  spelled.sort((a, b) => compare(a.name, b.name) || compare(a.key, b.key))
  return `{${spelled.map(({ name, value }) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** `1`, `1.0` and `10e-1` are one number. What a double would round keeps its digits. */
function numberText(written: string): string {
  const exact = decimal(written)
  const rounded = Number(written)
  if (!Number.isFinite(rounded)) return exact
  const usual = JSON.stringify(rounded)
  return decimal(usual) === exact ? usual : exact
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** A number with a longer exponent keeps its spelling. */
const MAX_POWER_DIGITS = 20

/** A number as its significant digits and a power of ten, exactly. */
function decimal(written: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] = NUMBER.exec(written) ?? []
  const digits = withoutLeadingZeros(`${whole}${fraction}`)
  if (digits === '') return '0'
  if (power.length > MAX_POWER_DIGITS) return written
  const significant = withoutTrailingZeros(digits)
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${String(exponent)}`
}

/** By hand: a pattern for trailing zeros would look at every zero again and again. */
function withoutTrailingZeros(digits: string): string {
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end -= 1
  return digits.slice(0, end)
}

function withoutLeadingZeros(digits: string): string {
  let from = 0
  while (from < digits.length && digits[from] === '0') from += 1
  return digits.slice(from)
}
