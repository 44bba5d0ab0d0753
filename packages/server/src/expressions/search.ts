/**
 * Looking for one string in another. The native search takes quadratic time for some pairs (14 s for a quarter of a
 * million characters), so long needles are looked for with Knuth, Morris and Pratt.
 */
import type { Meter } from './meter.ts'

/** Below this product even the worst case of the native search is short. */
const SHORT = 1_000_000

export function finder(text: string, needle: string, meter: Meter): (from: number) => number {
  if (needle.length <= 4 || text.length * needle.length <= SHORT) {
    return (from) => {
      const found = text.indexOf(needle, from)
      meter.work(((found === -1 ? text.length : found) - from) / 4)
      return found
    }
  }
  const fallbacks = fallbackTable(needle)
  meter.work(needle.length)
  return (from) => {
    let matched = 0
    let at = from
    for (; at < text.length; at++) {
      while (matched > 0 && text.charCodeAt(at) !== needle.charCodeAt(matched)) matched = fallbacks[matched - 1] ?? 0
      if (text.charCodeAt(at) === needle.charCodeAt(matched)) matched += 1
      if (matched === needle.length) break
    }
    meter.work(at - from)
    return matched === needle.length ? at - needle.length + 1 : -1
  }
}

/** For each prefix: how long its longest own prefix is that is also its end. */
function fallbackTable(needle: string): Int32Array {
  const table = new Int32Array(needle.length)
  let length = 0
  for (let at = 1; at < needle.length; at++) {
    while (length > 0 && needle.charCodeAt(at) !== needle.charCodeAt(length)) length = table[length - 1] ?? 0
    if (needle.charCodeAt(at) === needle.charCodeAt(length)) length += 1
    table[at] = length
  }
  return table
}
