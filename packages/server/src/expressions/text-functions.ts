/**
 * Functions on strings, written anew where JSONata's own would build first and be found too large afterwards (a string of
 * 300 million characters ends the whole process), or take quadratic time.
 */
import type { Body, Call, Passed } from './calls.ts'
import { MAX_ITEMS, MAX_STRING, tooLarge } from './limits.ts'
import type { Meter } from './meter.ts'
import { finder } from './search.ts'

/** An error as JSONata throws them; `failure.ts` makes ours of it. */
export const refusal = (code: string, index?: number): Error => Object.assign(new Error(code), { code, index })

const hasSurrogates = (text: string): boolean => /[\ud800-\udfff]/.test(text)

/** In characters, not in UTF-16 units. */
function lengthOf(text: string): number {
  if (!hasSurrogates(text)) return text.length
  let length = 0
  for (const _ of text) length += 1
  return length
}

function* pieces(
  text: string,
  find: (from: number) => number,
  step: number,
  most: number,
): Generator<[number, number]> {
  let from = 0
  for (let count = 0; count < most; count++) {
    const at = find(from)
    if (at === -1) return
    yield [from, at]
    from = at + step
  }
}

interface Match {
  readonly match: string
  readonly start: number
  readonly end: number
  readonly groups: readonly unknown[]
  readonly next?: Passed
}

/** What a regular expression, or a function in its place, finds: one match after the other. */
async function* matches(call: Call, matcher: Passed, text: string, most: number): AsyncGenerator<Match> {
  let found = (await call.invoke(matcher, text)) as Match | undefined
  for (let count = 0; found !== undefined && count < most; count++) {
    const { match, start, end, groups } = found
    const isMatch =
      typeof match === 'string' && Number.isInteger(start) && Number.isInteger(end) && Array.isArray(groups)
    if (!isMatch) throw refusal('T1010')
    yield found
    call.meter.work(10)
    found = found.next === undefined ? undefined : ((await call.invoke(found.next)) as Match | undefined)
  }
}

/** `$n` in a replacement stands for the n-th group, `$0` for the match, `$$` for a dollar. */
function substitute(replacement: string, { match, groups }: Match, meter: Meter): string {
  let result = ''
  let position = 0
  const put = (part: string): void => {
    meter.text(result.length + part.length)
    meter.work(4)
    result += part
  }
  for (let at = replacement.indexOf('$'); at !== -1; at = replacement.indexOf('$', position)) {
    put(replacement.substring(position, at))
    position = at + 1
    const next = replacement.charAt(position)
    if (next === '$' || next === '0') {
      put(next === '$' ? '$' : match)
      position += 1
      continue
    }
    const digits = groups.length === 0 ? 1 : Math.floor(Math.log(groups.length) * Math.LOG10E) + 1
    let index = parseInt(replacement.substring(position, position + digits), 10)
    if (digits > 1 && index > groups.length)
      index = parseInt(replacement.substring(position, position + digits - 1), 10)
    if (Number.isNaN(index)) {
      put('$')
      continue
    }
    const group = groups[index - 1]
    if (typeof group === 'string') put(group)
    position += String(index).length
  }
  put(replacement.substring(position))
  return result
}

async function replace(
  call: Call,
  text: string | undefined,
  pattern: string | Passed,
  replacement: string | Passed,
  limit = Infinity,
): Promise<string | undefined> {
  if (text === undefined) return undefined
  if (pattern === '') throw refusal('D3010', 2)
  if (limit < 0) throw refusal('D3011', 4)
  const { meter } = call
  let result = ''
  let position = 0
  const put = (part: string): void => {
    meter.text(result.length + part.length)
    result += part
  }
  if (typeof pattern === 'string') {
    // JSONata takes a function here only with a regular expression, and would write its source text.
    if (typeof replacement !== 'string') throw refusal('D3012')
    for (const [from, at] of pieces(text, finder(text, pattern, meter), pattern.length, limit)) {
      put(text.substring(from, at))
      put(replacement)
      meter.work(4)
      position = at + pattern.length
    }
  } else {
    for await (const match of matches(call, pattern, text, limit)) {
      put(text.substring(position, match.start))
      const by: unknown =
        typeof replacement === 'string' ? substitute(replacement, match, meter) : await call.invoke(replacement, match)
      if (typeof by !== 'string') throw refusal('D3012')
      put(by)
      position = match.start + match.match.length
    }
  }
  put(text.substring(position))
  return result
}

const tooManyParts = (): Error => tooLarge(`A string would be split into more than ${String(MAX_ITEMS)} parts.`)

async function split(
  call: Call,
  text: string | undefined,
  separator: string | Passed,
  limit = Infinity,
): Promise<string[] | undefined> {
  if (text === undefined) return undefined
  if (limit < 0) throw refusal('D3020', 3)
  const { meter } = call
  const parts: string[] = []
  const put = (part: string): void => {
    if (parts.length >= MAX_ITEMS) throw tooManyParts()
    parts.push(part)
    meter.work(4)
  }
  if (typeof separator !== 'string') {
    let start = 0
    for await (const match of matches(call, separator, text, limit)) {
      put(text.substring(start, match.start))
      start = match.end
    }
    if (parts.length < limit) put(text.substring(start))
    return parts
  }
  const most = Math.floor(limit)
  if (separator === '') {
    if (Math.min(text.length, most) > MAX_ITEMS) throw tooManyParts()
    return text.split('', Math.min(most, MAX_ITEMS))
  }
  let start = 0
  for (const [from, at] of pieces(text, finder(text, separator, meter), separator.length, most)) {
    put(text.substring(from, at))
    start = at + separator.length
  }
  if (parts.length < most) put(text.substring(start))
  return parts
}

function substring(_call: Call, text: string | undefined, start: number, length?: number): string | undefined {
  if (text === undefined) return undefined
  const characters = hasSurrogates(text) ? [...text] : text
  const from = characters.length + start < 0 ? 0 : start
  if (length !== undefined && length <= 0) return ''
  const to = length === undefined ? undefined : (from >= 0 ? from : characters.length + from) + length
  return typeof characters === 'string' ? characters.slice(from, to) : characters.slice(from, to).join('')
}

function pad(call: Call, text: string | undefined, width: number, char?: string): string | undefined {
  if (text === undefined) return undefined
  const filler = char === undefined || char === '' ? ' ' : char
  const missing = Math.abs(Math.trunc(width)) - lengthOf(text)
  if (missing <= 0) return text
  call.meter.text(text.length + missing)
  const repeated = filler.repeat(Math.ceil(missing / lengthOf(filler)))
  const padding = substring(call, repeated, 0, missing) ?? ''
  return width > 0 ? text + padding : padding + text
}

export const TEXT_FUNCTIONS: Readonly<Record<string, Body>> = {
  string(call, value: unknown, prettify?: boolean) {
    // As text a value is at most about as long as it is heavy; each level adds two spaces to each line.
    const levels = prettify === true ? 1 + call.meter.depth(value) : 1
    if (call.meter.weigh(value) * levels > MAX_STRING * (prettify === true ? 4 : 1))
      throw tooLarge('A value is too large to be made a string.')
    return call.native(value, prettify)
  },
  length: (_call, text?: string) => (text === undefined ? undefined : lengthOf(text)),
  substring,
  substringBefore(call, text: string | undefined, chars: string) {
    if (text === undefined) return undefined
    const at = finder(text, chars, call.meter)(0)
    return at === -1 ? text : text.substring(0, at)
  },
  substringAfter(call, text: string | undefined, chars: string) {
    if (text === undefined) return undefined
    const at = finder(text, chars, call.meter)(0)
    return at === -1 ? text : text.substring(at + chars.length)
  },
  pad,
  contains(call, text: string | undefined, token: string | Passed | undefined) {
    if (text === undefined || token === undefined) return undefined
    if (typeof token === 'string') return finder(text, token, call.meter)(0) !== -1
    return call.native(text, token)
  },
  replace,
  split,
  join(call, parts: readonly string[] | undefined, separator = '') {
    if (parts === undefined) return undefined
    call.meter.text(call.meter.weigh(parts) + separator.length * parts.length)
    return parts.join(separator)
  },
}
