// Values of earlier answers inside a later step: {{steps.ID.response.body.PATH}}, and what a step captured under a name:
// {{name}}, ${name} or $ref.name. A string that is nothing but one reference becomes the value itself, type and all.
// {{in:MS}} is the instant so many milliseconds from now.
import { at, isObject, MISSING, text } from './path.mjs'

export class Unresolved extends Error {}

const REFERENCE = /\{\{\s*([^{}]+?)\s*\}\}|\$\{([A-Za-z_]\w*)\}|\$ref\.([A-Za-z_]\w*)/g

/** @param memory `{answers, captured, names}`: `names` are those that some step captures; others are plain text */
export function fill(value, memory) {
  if (typeof value === 'string') return fillText(value, memory)
  if (Array.isArray(value)) return value.map((item) => fill(item, memory))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [fillText(key, memory), fill(member, memory)]))
}

function fillText(string, memory) {
  const found = [...string.matchAll(REFERENCE)]
  if (found.length === 0) return string
  const values = found.map((hit) => lookUp(hit, memory))
  if (found.length === 1 && found[0][0] === string) return values[0]
  let next = 0
  return string.replace(REFERENCE, () => text(values[next++]))
}

function lookUp([whole, braces, dollar, ref], { answers, captured, names }) {
  const name = braces ?? dollar ?? ref
  const wait = /^in:(\d+)$/.exec(name)
  if (wait !== null) return new Date(Date.now() + Number(wait[1])).toISOString()
  const step = /^steps\.([^.]+)\.response(?:\.(.+))?$/.exec(name)
  if (step === null && !names.has(name)) return whole
  const value = step === null ? (captured[name] ?? MISSING) : at(step[2] ?? '$', answers[step[1]]?.response ?? MISSING)
  if (value === MISSING || value === null) throw new Unresolved(whole)
  return value
}
