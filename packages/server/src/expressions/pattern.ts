/**
 * Regular expressions as JSONata writes them (those of JavaScript), checked for what can be matched in linear time. What
 * cannot (looking around, back-references) and what the linear engine would read differently is refused, and so is what
 * becomes too large when counted repetitions are written out: `(a{30}){30}` is an automaton of 900 states.
 */
import { MAX_PATTERN, MAX_PATTERN_STATES } from './limits.ts'

/** Why a pattern is not taken, as a sentence for its author. */
export class PatternRefused extends Error {}

const ESCAPES = 'dDwWsSbBnrtfv'

/** About how many states the pattern has; refuses what is not supported. */
export function patternStates(source: string): number {
  if (source.length > MAX_PATTERN) throw new PatternRefused(`is longer than ${String(MAX_PATTERN)} characters`)
  // The size of each open group so far, and of the atom that a quantifier would repeat.
  const groups: number[] = []
  let size = 0
  let atom = 0
  const put = (states: number): void => {
    atom = states
    size += states
    if (size > MAX_PATTERN_STATES) throw new PatternRefused('is too large when its repetitions are written out')
  }
  for (let at = 0; at < source.length;) {
    const char = source.charAt(at)
    if (char === '\\') {
      at = afterEscape(source, at, false)
      put(1)
    } else if (char === '[') {
      at = afterClass(source, at)
      put(1)
    } else if (char === '(') {
      at = afterGroupStart(source, at)
      groups.push(size)
      size = 0
    } else if (char === ')') {
      const inner = size + 2
      size = groups.pop() ?? 0
      put(inner)
      at += 1
    } else if (char === '{') {
      const counts = /^\{(\d+)(,(\d*))?\}/.exec(source.slice(at, at + 16))
      if (counts === null) {
        put(1)
        at += 1
      } else {
        const most = Math.max(Number(counts[1]), Number(counts[3] ?? 0), 1)
        const repeated = atom
        put(repeated * (most - 1) + 1)
        atom = repeated * most + 1
        at += counts[0].length
      }
    } else {
      if ('*+?'.includes(char)) size += 1
      else put(1)
      at += 1
    }
  }
  return size
}

function afterEscape(source: string, at: number, inClass: boolean): number {
  const next = source.charAt(at + 1)
  if (/[1-9]/.test(next) || next === 'k') throw new PatternRefused('has a back-reference')
  if (inClass && (next === 'b' || next === 'B')) throw new PatternRefused(`has \\${next} within brackets`)
  if (next === '0' && /[0-9]/.test(source.charAt(at + 2))) throw new PatternRefused('has an octal escape')
  if (next === 'x' && /^[0-9a-fA-F]{2}/.test(source.slice(at + 2))) return at + 4
  if (next === 'u' && /^[0-9a-fA-F]{4}/.test(source.slice(at + 2))) return at + 6
  if (next === 'c' && /^[A-Za-z]/.test(source.slice(at + 2))) return at + 3
  if (/[A-Za-z]/.test(next) && !ESCAPES.includes(next)) throw new PatternRefused(`has the unknown escape \\${next}`)
  return at + 2
}

function afterClass(source: string, start: number): number {
  let at = start + 1
  if (source.charAt(at) === '^') at += 1
  while (at < source.length && source.charAt(at) !== ']') {
    // For JavaScript [[:x:]] is not a named class; for the linear engine it is.
    if (source.startsWith('[:', at)) throw new PatternRefused('has [: within brackets; write \\[:')
    at = source.charAt(at) === '\\' ? afterEscape(source, at, true) : at + 1
  }
  return at + 1
}

function afterGroupStart(source: string, at: number): number {
  if (source.charAt(at + 1) !== '?') return at + 1
  if (source.startsWith('(?:', at)) return at + 3
  const named = /^\(\?<[A-Za-z_][A-Za-z0-9_]*>/.exec(source.slice(at, at + 80))
  if (named !== null) return at + named[0].length
  if (/^\(\?<?[=!]/.test(source.slice(at, at + 4))) throw new PatternRefused('looks ahead or behind')
  throw new PatternRefused(`has the unknown group ${source.slice(at, at + 3)}`)
}
