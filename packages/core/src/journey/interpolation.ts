/**
 * `${context.a.b}` in a text of a definition: in URLs, header values, query parameters, the strings of a literal body and
 * the reason of a `fail` or of a run whose time is up. A placeholder is a path of names and nothing else; who wants to compute writes an expression.
 *
 *   a string    stands for itself          anything else    stands as its JSON text
 *   null, or nothing there: a fault        lists            have no members to name
 *
 * Values are put in once and not looked at again. Only own members count, so `__proto__` is a name like any other.
 */
import { RunFault } from './faults.ts'
import type { Data } from './run/run.ts'

export interface Placeholder {
  /** The names below `context`. */
  readonly path: readonly string[]
  /** Where it begins in the text. */
  readonly at: number
}

/** A text, taken apart: pieces that stand for themselves, and placeholders between them. */
interface Template {
  readonly parts: readonly (string | Placeholder)[]
  readonly errors: readonly string[]
}

/** No blanks, brackets or quotes: what is more than names is meant as an expression, or as an index. */
const NAME = /^[^\s.{}[\]()'"`$\\]+$/

function take(text: string): Template {
  const parts: (string | Placeholder)[] = []
  const errors: string[] = []
  let from = 0
  for (let at = text.indexOf('${'); at >= 0; at = text.indexOf('${', from)) {
    parts.push(text.slice(from, at))
    const end = text.indexOf('}', at)
    if (end < 0) {
      errors.push('a placeholder is not closed: ${ without }')
      return { parts, errors }
    }
    const [root, ...path] = text.slice(at + 2, end).split('.')
    if (root === 'context' && path.length > 0 && path.every((name) => NAME.test(name))) parts.push({ path, at })
    else
      errors.push(`${shown(text.slice(at, end + 1))} is not a placeholder; write \${context.name} or \${context.a.b}`)
    from = end + 1
  }
  parts.push(text.slice(from))
  return { parts, errors }
}

const shown = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

/** The placeholders of a text, and what is wrong with those that are none. */
export function placeholdersOf(text: string): { placeholders: readonly Placeholder[]; errors: readonly string[] } {
  const { parts, errors } = take(text)
  return { placeholders: parts.filter((part) => typeof part !== 'string'), errors }
}

/** How a value is put into the text around it. */
export type Place = 'text' | 'url' | 'header'

/** A text is no longer than this once its values are in it, in UTF-16 units. */
const MAX_LENGTH: Readonly<Record<Place, number>> = { text: 1_048_576, url: 4_096, header: 8_192 }

/** Faults name the path that was meant, never the value. */
export function interpolate(text: string, context: Data, place: Place): string {
  if (!text.includes('${')) return text
  const { parts, errors } = take(text)
  if (errors[0] !== undefined) throw new RunFault('RUNTIME_INTERNAL', errors[0])
  let made = ''
  for (const part of parts) {
    made += typeof part === 'string' ? part : placed(textAt(context, part.path), part.path, place)
    if (made.length > MAX_LENGTH[place])
      throw new RunFault('RUNTIME_TOO_LARGE', `a text with ${named(part)} in it becomes too long for its place`)
  }
  return made
}

/** The same where nothing may fail: what cannot be put in stays as it was written. */
export function interpolateGently(text: string, context: Data): string {
  const { parts, errors } = take(text)
  if (errors.length > 0) return text
  const filled = parts.map((part) => {
    if (typeof part === 'string') return part
    try {
      return textAt(context, part.path)
    } catch (error) {
      if (error instanceof RunFault) return written(part.path)
      throw error
    }
  })
  const made = filled.join('')
  return made.length > MAX_LENGTH.text ? text : made
}

const named = (part: string | Placeholder): string => (typeof part === 'string' ? 'values' : written(part.path))

const written = (path: readonly string[]): string => `\${context.${path.join('.')}}`

function textAt(context: Data, path: readonly string[]): string {
  let value: unknown = context
  for (const name of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, name))
      throw new RunFault('RUNTIME_MISSING_VALUE', `there is no value for ${written(path)}`)
    value = (value as Data)[name]
  }
  if (value === null || value === undefined)
    throw new RunFault('RUNTIME_MISSING_VALUE', `the value for ${written(path)} is null`)
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function placed(value: string, path: readonly string[], place: Place): string {
  if (place === 'header' && !canBeSent(value))
    throw new RunFault('RUNTIME_BAD_HEADER', `${written(path)} has characters that no header can carry`)
  return place === 'url' ? encoded(value, written(path)) : value
}

/** Printable Latin-1, as far as headers go. */
export function canBeSent(headerValue: string): boolean {
  return /^[\x20-\x7e\xa0-\xff]*$/.test(headerValue)
}

/** For one piece of a URL: nothing in it means anything there. */
export function encoded(value: string, what: string): string {
  try {
    return encodeURIComponent(value)
  } catch (error) {
    throw new RunFault('RUNTIME_BAD_URL', `${what} contains half of a surrogate pair, which is not valid text`, error)
  }
}

/**
 * A value of any shape with its strings filled in: the literal body of a call. `most` bounds all of it, since a small
 * definition can name a large value many times.
 */
export function interpolateAll(value: unknown, context: Data, most: number): unknown {
  let left = most
  const fill = (part: unknown): unknown => {
    if (typeof part === 'string') {
      const text = interpolate(part, context, 'text')
      left -= text.length
      if (left < 0) throw new RunFault('RUNTIME_TOO_LARGE', 'the body becomes too large to be sent')
      return text
    }
    if (Array.isArray(part)) return part.map(fill)
    if (typeof part !== 'object' || part === null) return part
    return Object.fromEntries(Object.entries(part).map(([name, member]) => [name, fill(member)]))
  }
  return fill(value)
}
