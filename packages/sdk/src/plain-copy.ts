/** Copies of plain data, to find out later whether the data is still the same. */

/** In the place of what is not plain data (a date, an instance of a class, a function): equal to nothing. */
const UNLIKE_ANYTHING = Symbol('unlike anything')

/** A deep copy. The data has no cycles. */
export function copyOf(value: unknown): unknown {
  if (typeof value === 'function') return UNLIKE_ANYTHING
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Array.from(value, copyOf)
  if (!isPlain(value)) return UNLIKE_ANYTHING
  return new Map(Object.entries(value).map(([key, inner]) => [key, copyOf(inner)]))
}

/** Whether the value has the content that was copied, in the same order of keys. */
export function isCopyOf(value: unknown, copy: unknown): boolean {
  if (Array.isArray(copy)) {
    if (!Array.isArray(value) || value.length !== copy.length) return false
    return copy.every((inner, index) => isCopyOf(value[index], inner))
  }
  if (!(copy instanceof Map)) return Object.is(value, copy)
  if (typeof value !== 'object' || value === null || !isPlain(value)) return false
  const record = value as Readonly<Record<string, unknown>>
  const keys = Object.keys(record)
  if (keys.length !== copy.size) return false
  let index = 0
  for (const [key, inner] of copy as ReadonlyMap<string, unknown>) {
    if (keys[index] !== key || !isCopyOf(record[key], inner)) return false
    index += 1
  }
  return true
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
