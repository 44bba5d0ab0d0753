/**
 * What may travel: JSON, and nothing that JSON would change silently. NaN would arrive as null, a Date
 * as a text, a Map as {}. A property that is undefined may be left out: readers see no difference.
 */
import { InputError } from './errors.ts'

/** Deeper than any server takes; a value that contains itself is deeper than everything. */
const DEEPEST = 100

/** `what` begins the sentence of the refusal, as in `The input of video.transcode`. */
export function jsonText(value: unknown, what: string): string {
  check(value, what, '', 0)
  return JSON.stringify(value)
}

function check(value: unknown, what: string, path: string, depth: number): void {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return
    case 'number':
      if (Number.isFinite(value)) return
      throw refusal(what, path, `${String(value)} has no form in JSON`)
    case 'object':
      break
    case 'undefined':
      throw refusal(what, path, 'undefined has no form in JSON (write null)')
    case 'bigint':
      throw refusal(what, path, 'a bigint has no form in JSON (write it as a text)')
    default:
      throw refusal(what, path, `a ${typeof value} has no form in JSON`)
  }
  if (value === null) return
  if (depth === DEEPEST) throw refusal(what, path, 'it is nested too deep, or contains itself')
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1)
      check(value[index], what, `${path}/${String(index)}`, depth + 1)
    return
  }
  const tag = Object.prototype.toString.call(value)
  if (tag !== '[object Object]') {
    const hint = value instanceof Date ? ' (write date.toISOString())' : ''
    throw refusal(what, path, `a ${tag.slice(8, -1)} would arrive as something else${hint}`)
  }
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    throw refusal(what, path, 'an object with toJSON() would arrive as something else (convert it first)')
  }
  for (const key of Object.keys(value)) {
    const inner = (value as Record<string, unknown>)[key]
    if (inner !== undefined) check(inner, what, `${path}/${key}`, depth + 1)
  }
}

function refusal(what: string, path: string, problem: string): InputError {
  const at = path === '' ? '/' : path
  return new InputError(`${what} cannot travel as JSON: ${problem} (at ${at}).`, { path: at })
}
