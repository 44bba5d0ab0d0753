// Whether a value is as a case wants it. A matcher is any JSON value:
//
//   a number, true, false, null     that very value
//   a string                        one of the words or patterns below, else that very string
//   an array                        as long, and matching place by place
//   an object                       operators ($in, $gte, …), else a subset: each key must match
//
// `match` answers null when it fits, else what was wanted, what was there, and where below the value the two part.
import { isDeepStrictEqual } from 'node:util'
import { at, isObject, MISSING, text } from './path.mjs'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const DATETIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

const isString = (value) => typeof value === 'string'
const isNumber = (value) => typeof value === 'number'
/** In OJS an optional field that is null counts as one that was not sent. */
const isAbsent = (value) => value === MISSING || value === null

const WORDS = {
  any: ['anything but null', (v) => !isAbsent(v)],
  exists: ['something', (v) => v !== MISSING],
  absent: ['nothing', isAbsent],
  'string:nonempty': ['a string that is not empty', (v) => isString(v) && v !== ''],
  'string:non_empty': ['a string that is not empty', (v) => isString(v) && v !== ''],
  'string:uuid': ['a UUID', (v) => isString(v) && UUID.test(v)],
  'string:uuidv7': ['a UUID of version 7', (v) => isString(v) && UUID_V7.test(v)],
  'string:datetime': ['a time as RFC 3339 has it', (v) => isString(v) && DATETIME.test(v)],
  'number:positive': ['a number above 0', (v) => isNumber(v) && v > 0],
  'number:non_negative': ['a number of at least 0', (v) => isNumber(v) && v >= 0],
  'array:empty': ['an empty array', (v) => Array.isArray(v) && v.length === 0],
  'array:nonempty': ['an array that is not empty', (v) => Array.isArray(v) && v.length > 0],
}

/** The tolerance of `~n`, in percent, and at least so much: the official cases are written for it. */
const ABOUT_PERCENT = 50
const ABOUT_LEAST = 100
export const isAbout = (value, n) => Math.abs(value - n) <= Math.max((n * ABOUT_PERCENT) / 100, ABOUT_LEAST)

const holds = (array, wanted) => Array.isArray(array) && array.some((item) => text(item) === wanted)

const PATTERNS = [
  [/^array:length[:(](\d+)\)?$/, (n) => [`an array of ${n}`, (v) => Array.isArray(v) && v.length === Number(n)]],
  [
    /^array:min(?:_length)?:(\d+)$/,
    (n) => [`an array of at least ${n}`, (v) => Array.isArray(v) && v.length >= Number(n)],
  ],
  [/^contains:(.*)$/s, (x) => [`an array with ${x} in it`, (v) => holds(v, x)]],
  [/^not_contains:(.*)$/s, (x) => [`an array without ${x}`, (v) => Array.isArray(v) && !holds(v, x)]],
  [/^string:contains:(.*)$/s, (x) => [`a string with ${JSON.stringify(x)} in it`, (v) => isString(v) && v.includes(x)]],
  [/^string:pattern\((.*)\)$/s, (x) => [`a string like /${x}/`, (v) => isString(v) && new RegExp(x).test(v)]],
  [
    /^number:range\((-?[\d.]+),\s*(-?[\d.]+)\)$/,
    (low, high) => [`a number from ${low} to ${high}`, (v) => isNumber(v) && v >= Number(low) && v <= Number(high)],
  ],
  [/^one_of:(.*)$/s, (list) => [`one of ${list}`, (v) => list.split(',').some((x) => x.trim() === text(v))]],
  [/^~(\d+(?:\.\d+)?)$/, (n) => [`about ${n}`, (v) => isNumber(v) && isAbout(v, Number(n))]],
]

const fits = (matcher, value) => match(matcher, value) === null
const compares = (sign, test) => (n, v) => (isNumber(v) && test(v, n) ? null : `a number ${sign} ${show(n)}`)

/** Each answers what it wants when it is not there. */
const OPERATORS = {
  $eq: (wanted, v) => (isDeepStrictEqual(v, wanted) ? null : show(wanted)),
  $ne: (unwanted, v) => (isDeepStrictEqual(v, unwanted) ? `anything but ${show(unwanted)}` : null),
  $gt: compares('above', (v, n) => v > n),
  $gte: compares('of at least', (v, n) => v >= n),
  $lt: compares('below', (v, n) => v < n),
  $lte: compares('of at most', (v, n) => v <= n),
  $exists: (wanted, v) => (isAbsent(v) === !wanted ? null : wanted ? 'something' : 'nothing'),
  $type: (wanted, v) => (v !== MISSING && typeOf(v) === wanted ? null : `a value of type ${wanted}`),
  $match: (pattern, v) => (isString(v) && new RegExp(pattern).test(v) ? null : `a string like /${pattern}/`),
  $in: (list, v) => (list.some((m) => fits(m, v)) ? null : `one of ${show(list)}`),
  $or: (list, v) => (list.some((m) => fits(m, v)) ? null : `what fits one of ${show(list)}`),
  $not: (matcher, v) => (fits(matcher, v) ? `anything but ${show(matcher)}` : null),
  $empty: (wanted, v) => (isEmpty(v) === wanted ? null : wanted ? 'an empty value' : 'a value that is not empty'),
  $size: (size, v) => {
    if (!Array.isArray(v)) return `an array of size ${show(size)}`
    const different = match(size, v.length)
    return different && `an array of size ${different.wanted}`
  },
  range: ({ min = -Infinity, max = Infinity }, v) =>
    isNumber(v) && v >= min && v <= max ? null : `a number from ${min} to ${max}`,
  // Ours.
  $contains: (matcher, v) =>
    Array.isArray(v) && v.some((item) => fits(matcher, item)) ? null : `one like ${show(matcher)}`,
  $without: (matcher, v) =>
    Array.isArray(v) && !v.some((item) => fits(matcher, item)) ? null : `none like ${show(matcher)}`,
  $sequence: (list, v) =>
    Array.isArray(v) && inOrder(list, v) ? null : `in this order, others between: ${show(list)}`,
}

function inOrder(matchers, values) {
  let next = 0
  for (const value of values) if (next < matchers.length && fits(matchers[next], value)) next += 1
  return next === matchers.length
}

function isEmpty(value) {
  if (Array.isArray(value)) return value.length === 0
  return isAbsent(value) || value === '' || (isObject(value) && Object.keys(value).length === 0)
}

function typeOf(value) {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function isOperators(matcher) {
  const keys = Object.keys(matcher)
  return (
    keys.some((key) => key.startsWith('$')) || (keys.length === 1 && keys[0] === 'range' && isObject(matcher.range))
  )
}

/** @returns {null | {wanted: string, got: unknown, below: string}} */
export function match(matcher, value) {
  const differs = (wanted) => ({ wanted, got: value, below: '' })
  if (isNumber(matcher)) return isNumber(value) && isSame(matcher, value) ? null : differs(show(matcher))
  if (isString(matcher)) {
    const [wanted, test] = rule(matcher)
    return test(value) ? null : differs(wanted)
  }
  if (Array.isArray(matcher)) {
    if (!Array.isArray(value) || value.length !== matcher.length) return differs(`an array of ${matcher.length}`)
    return firstDifference(matcher.map((m, i) => [`[${i}]`, m, value[i]]))
  }
  if (!isObject(matcher)) return value === matcher ? null : differs(show(matcher))
  if (!isOperators(matcher)) {
    if (!isObject(value)) return differs('an object')
    return firstDifference(Object.entries(matcher).map(([key, m]) => [`.${key}`, m, member(value, key)]))
  }
  for (const [name, operand] of Object.entries(matcher)) {
    const operator = OPERATORS[name]
    if (operator === undefined) throw new SyntaxError(`there is no operator ${name}`)
    const wanted = operator(operand, value)
    if (wanted !== null) return differs(wanted)
  }
  return null
}

function member(value, key) {
  if (Object.hasOwn(value, key)) return value[key]
  const names = key.split('.').map((name) => ({ key: name }))
  return names.length > 1 ? at(names, value) : MISSING
}

function firstDifference(pairs) {
  for (const [where, matcher, value] of pairs) {
    const different = match(matcher, value)
    if (different) return { ...different, below: where + different.below }
  }
  return null
}

function isSame(a, b) {
  return a === b || Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a))
}

function rule(matcher) {
  if (Object.hasOwn(WORDS, matcher)) return WORDS[matcher]
  for (const [pattern, make] of PATTERNS) {
    const found = pattern.exec(matcher)
    if (found) return make(...found.slice(1))
  }
  return [show(matcher), (v) => v === matcher]
}

const SHOWN = 300

export function show(value, longest = SHOWN) {
  if (value === MISSING) return 'nothing'
  const shown = JSON.stringify(value) ?? String(value)
  return shown.length > longest ? `${shown.slice(0, longest)}…` : shown
}
