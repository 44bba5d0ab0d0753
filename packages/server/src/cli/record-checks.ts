/** Checks of values that are read from a file: each passes a value or throws, and says where and what was expected. */
import { isUuidV7, type Job, type Limit } from '@curfew/core'

export class BadRecord extends Error {}

/** Throws BadRecord for a value that is not a T. */
export type Check<T> = ((value: unknown, at: string) => void) & { readonly of?: T }
type Checks<T> = { readonly [K in keyof T]-?: Check<T[K]> }

function bad(at: string, expected: string): BadRecord {
  return new BadRecord(`${at} must be ${expected}`)
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function passing<T>(expected: string, passes: (value: unknown) => boolean): Check<T> {
  return (value, at) => {
    if (!passes(value)) throw bad(at, expected)
  }
}

/** All of these fields and no other. What is not there is fine where the check allows it. */
export function fields<T>(checks: Checks<T>): Check<T> {
  const known = Object.entries<Check<unknown>>(checks)
  return (value, at) => {
    if (!isObject(value)) throw bad(at, 'an object')
    const path = at === '' ? '' : `${at}.`
    for (const [name, check] of known) check(Object.hasOwn(value, name) ? value[name] : undefined, path + name)
    const unknown = Object.keys(value).find((name) => !Object.hasOwn(checks, name))
    if (unknown !== undefined)
      throw new BadRecord(`${at === '' ? 'it' : at} has an unknown field ${JSON.stringify(unknown)}`)
  }
}

export function orNull<T>(check: Check<T>): Check<T | null> {
  return (value, at) => {
    if (value !== null) check(value, at)
  }
}

export function orAbsent<T>(check: Check<T>): Check<T> {
  return (value, at) => {
    if (value !== undefined) check(value, at)
  }
}

export function listOf<T>(check: Check<T>): Check<readonly T[]> {
  return (value, at) => {
    if (!Array.isArray(value)) throw bad(at, 'an array')
    for (const [index, entry] of value.entries()) check(entry, `${at}[${String(index)}]`)
  }
}

export function mapOf<T>(check: Check<T>): Check<Readonly<Record<string, T>>> {
  return (value, at) => {
    if (!isObject(value)) throw bad(at, 'an object')
    for (const [name, entry] of Object.entries(value)) check(entry, `${at}[${JSON.stringify(name)}]`)
  }
}

export const oneOf = <T extends string>(...choices: readonly T[]): Check<T> =>
  passing(`one of ${choices.join(', ')}`, (value) => choices.includes(value as T))

export const whole = <T extends number>(min: number): Check<T> =>
  passing(min < 0 ? 'a whole number' : `a whole number of at least ${String(min)}`, (value) => {
    return Number.isSafeInteger(value) && Number(value) >= min
  })

/** Whether it becomes JSON between these. */
const jsonWithin = (open: string, close: string, expected: string): Check<string> =>
  passing(expected, (value) => {
    if (typeof value !== 'string') return false
    try {
      JSON.parse(open + value + close)
      return true
    } catch {
      return false
    }
  })

export const anyValue: Check<unknown> = () => {}
export const string: Check<string> = passing('a string', (value) => typeof value === 'string')
export const name: Check<string> = passing(
  'a name',
  (value) => typeof value === 'string' && /^[\x21-\x7e]+$/.test(value),
)
export const jobId: Check<string> = passing('a UUIDv7', (value) => typeof value === 'string' && isUuidV7(value))
export const flag: Check<boolean> = passing('true or false', (value) => typeof value === 'boolean')
export const number: Check<number> = passing('a number', (value) => typeof value === 'number')
export const plain: Check<Readonly<Record<string, unknown>>> = passing('an object', isObject)
export const at = whole<Job['createdAt']>(Number.MIN_SAFE_INTEGER)
export const ms: Check<Limit['ms']> = passing('a number of milliseconds', (value) => typeof value === 'number')
export const count = whole(0)
export const json = jsonWithin('', '', 'JSON, as text')
export const inObject = jsonWithin('{', '}', 'the inside of a JSON object, as text')
export const inArray = jsonWithin('[', ']', 'the inside of a JSON array, as text')
