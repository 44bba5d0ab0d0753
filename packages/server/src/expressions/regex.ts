/**
 * Regular expressions for JSONata, over an engine whose time grows with the text and never explodes (RE2). JSONata makes
 * one of these for each evaluation of a literal, calls `exec`, and reads and writes `lastIndex` as with a native
 * expression that has the flag g. Linear is not yet short: states times characters of a search are limited as well, and
 * each search is paid for, because a list of matches is a list of searches.
 */
import { RE2JS } from 're2js'
import { ExpressionError } from '../engine/expressions.ts'
import { MAX_SEARCH, tooMuch } from './limits.ts'
import type { Meter } from './meter.ts'
import { PatternRefused, patternStates } from './pattern.ts'

export interface CompiledPattern {
  readonly states: number
  readonly regex: RE2JS
}

const compiled = new WeakMap<RegExp, CompiledPattern>()

export function compilePattern(native: RegExp): CompiledPattern {
  const known = compiled.get(native)
  if (known !== undefined) return known
  patternStates(native.source)
  let flags = 0
  if (native.ignoreCase) flags |= RE2JS.CASE_INSENSITIVE
  if (native.multiline) flags |= RE2JS.MULTILINE
  try {
    const regex = RE2JS.compile(RE2JS.translateRegExp(native.source), flags)
    const pattern = { regex, states: regex.programSize() }
    compiled.set(native, pattern)
    return pattern
  } catch (error) {
    throw new PatternRefused('is not supported', { cause: error })
  }
}

interface Match extends Array<string | undefined> {
  index: number
}

export interface RegexLike {
  lastIndex: number
  exec(text: unknown): Match | null
}

/** What JSONata is given in place of RegExp, for one evaluation: it says `new` to it. */
export function regexEngine(meter: Meter): new (native: RegExp) => RegexLike {
  return function (native: RegExp) {
    return new GuardedRegex(native, meter)
  } as unknown as new (native: RegExp) => RegexLike
}

class GuardedRegex implements RegexLike {
  lastIndex = 0
  readonly #pattern: CompiledPattern
  readonly #meter: Meter
  #matcher: { readonly text: string; readonly of: ReturnType<RE2JS['matcher']> } | undefined

  constructor(native: RegExp, meter: Meter) {
    this.#pattern = compilePattern(native)
    this.#meter = meter
  }

  exec(given: unknown): Match | null {
    const text = plainText(given)
    const from = this.lastIndex
    this.lastIndex = 0
    if (!(from >= 0 && from <= text.length)) return null
    const cost = (text.length - from + 1) * this.#pattern.states
    if (cost > MAX_SEARCH) throw tooMuch('The text is too long for this regular expression.')
    this.#meter.work(cost)
    if (this.#matcher?.text !== text) this.#matcher = { text, of: this.#pattern.regex.matcher(text) }
    const matcher = this.#matcher.of
    if (!matcher.find(from)) return null
    this.lastIndex = matcher.end()
    const groups: (string | undefined)[] = []
    for (let group = 0; group <= matcher.groupCount(); group++) groups.push(matcher.group(group) ?? undefined)
    return Object.assign(groups, { index: matcher.start() })
  }
}

/** Never asks an object for its text: an expression could have given it a `toString`. */
function plainText(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new ExpressionError('JN_TYPE_MISMATCH', 'A regular expression can only be applied to a string.')
}
