/**
 * What leaves a handler (its result, a checkpoint, what it enqueues) is JSON in the end. It is made JSON at once, in the
 * same way wherever the handler runs, so that nothing is lost silently and nothing changes after it was handed over.
 *
 * As in JSON.stringify a Date becomes text, `undefined` in an object is left out and in a list becomes null. Unlike
 * there, what would silently vanish or become `{}` (functions, symbols, Maps, Sets) is refused.
 */

/** The text; undefined for undefined. Throws a TypeError that says what does not fit, and where. */
export function jsonText(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  try {
    return JSON.stringify(value, refuseWhatVanishes)
  } catch (error) {
    const reason = error instanceof Unfit ? error.message : said(error)
    throw new TypeError(`${what} cannot be written as JSON: ${reason}`, { cause: error })
  }
}

/** A deep copy that is plain JSON. */
export function jsonCopy(value: unknown, what: string): unknown {
  const text = jsonText(value, what)
  return text === undefined ? undefined : (JSON.parse(text) as unknown)
}

class Unfit extends Error {}

function refuseWhatVanishes(key: string, value: unknown): unknown {
  const kind = typeof value
  if (kind === 'function' || kind === 'symbol' || kind === 'bigint') throw unfit(key, `a ${kind}`)
  if (value instanceof Map || value instanceof Set || value instanceof WeakMap || value instanceof WeakSet)
    throw unfit(key, `a ${value.constructor.name}`)
  if (value instanceof Promise) throw unfit(key, 'a Promise that was not awaited')
  return value
}

function unfit(key: string, found: string): Unfit {
  return new Unfit(`${key === '' ? 'it is' : `its field ${JSON.stringify(key)} is`} ${found}.`)
}

/** "Converting circular structure to JSON", and whatever a toJSON throws: its first line. */
function said(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n', 1)[0] ?? message
}
