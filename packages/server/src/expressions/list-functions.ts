/** Functions on arrays and objects, written anew where JSONata's own take quadratic time or look into functions. */
import type { Body, Call, Passed } from './calls.ts'
import { copied } from './plain.ts'
import { MAX_ITEMS, MAX_WEIGHT, tooLarge } from './limits.ts'
import { isFunction, type Meter } from './meter.ts'
import { refusal } from './text-functions.ts'

type List = readonly unknown[]

/** Merge sort, stable, with a comparison that answers whether the two must change places. */
async function sortedBy(list: List, follows: (a: unknown, b: unknown) => Promise<boolean>): Promise<List> {
  if (list.length <= 1) return list
  const middle = list.length >> 1
  const left = await sortedBy(list.slice(0, middle), follows)
  const right = await sortedBy(list.slice(middle), follows)
  const merged: unknown[] = []
  let l = 0
  let r = 0
  while (l < left.length && r < right.length) merged.push((await follows(left[l], right[r])) ? right[r++] : left[l++])
  return [...merged, ...left.slice(l), ...right.slice(r)]
}

async function sort(call: Call, list: List | undefined, comparator?: Passed): Promise<unknown> {
  if (list === undefined || list.length <= 1) return list
  if (list.length > MAX_ITEMS) throw tooLarge(`A list of more than ${String(MAX_ITEMS)} items is to be sorted.`)
  if (comparator !== undefined) {
    return sortedBy(list, async (a, b) => {
      call.meter.work(10)
      return Boolean(await call.invoke(comparator, a, b))
    })
  }
  const areNumbers = list.every((item) => typeof item === 'number')
  if (!areNumbers && !list.every((item) => typeof item === 'string')) throw refusal('D3070', 1)
  // Strings are compared by their units, as < does; equal ones keep their places.
  const inOrder = [...(list as (number | string)[])].sort((a, b) => (a > b ? 1 : a < b ? -1 : 0))
  call.meter.work(call.meter.weigh(list))
  return inOrder
}

/** A text that two values share if and only if JSONata takes them for equal. */
class Keys {
  readonly #meter: Meter
  readonly #functions = new Map<unknown, number>()

  constructor(meter: Meter) {
    this.#meter = meter
  }

  of(value: unknown): string {
    this.#meter.work(20)
    if (isFunction(value)) {
      if (!this.#functions.has(value)) this.#functions.set(value, this.#functions.size)
      return `f${String(this.#functions.get(value))}`
    }
    if (Array.isArray(value)) return `[${value.map((item) => this.of(item)).join()}]`
    if (typeof value === 'object' && value !== null) {
      const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
      return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${this.of(member)}`).join()}}`
    }
    return JSON.stringify(value) ?? 'u'
  }
}

function distinct(call: Call, list: unknown): unknown {
  if (!Array.isArray(list) || list.length <= 1) return list
  const result: unknown[] = (list as { sequence?: boolean }).sequence === true ? call.sequence() : []
  const keys = new Keys(call.meter)
  const seen = new Set<string>()
  for (const item of list as List) {
    const key = keys.of(item)
    if (seen.has(key)) continue
    seen.add(key)
    result.push(item)
  }
  return result
}

/** Members as objects of their own. Other values stay as they are; lists are opened. */
function spread(call: Call, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isFunction(value)) return value
  if (!Array.isArray(value)) {
    const members = call.sequence()
    for (const [key, member] of Object.entries(value)) members.push(record([[key, member]]))
    return members
  }
  const parts: unknown[] = []
  const put = (part: unknown): void => {
    call.meter.work(10)
    if (parts.length >= MAX_ITEMS) throw tooLarge(`A list of more than ${String(MAX_ITEMS)} items.`)
    parts.push(part)
  }
  for (const item of value as List) {
    const part = spread(call, item)
    if (Array.isArray(part)) part.forEach(put)
    else if (part !== undefined) put(part)
  }
  return parts.length === 0 ? call.sequence() : parts
}

function record(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  const result = Object.create(null) as Record<string, unknown>
  for (const [key, value] of entries) result[key] = value
  return result
}

function zip(call: Call, ...lists: readonly unknown[]): unknown[][] {
  const length = lists.reduce<number>((least, list) => Math.min(least, Array.isArray(list) ? list.length : 0), Infinity)
  const count = Number.isFinite(length) ? length : 0
  if (count * lists.length > 10 * MAX_ITEMS || count > MAX_ITEMS) throw tooLarge('The zipped lists are too large.')
  call.meter.work(count * lists.length)
  return Array.from({ length: count }, (_, at) => lists.map((list) => (list as List)[at]))
}

function shuffle(call: Call, list: List | undefined): unknown {
  if (list === undefined || list.length <= 1) return list
  const result = [...list]
  for (let at = result.length - 1; at > 0; at--) {
    const other = Math.floor(call.evaluation.random() * (at + 1))
    ;[result[at], result[other]] = [result[other], result[at]]
  }
  return result
}

export const LIST_FUNCTIONS: Readonly<Record<string, Body>> = {
  max: (_call, list?: readonly number[]) =>
    list === undefined || list.length === 0 ? undefined : list.reduce((a, b) => Math.max(a, b)),
  min: (_call, list?: readonly number[]) =>
    list === undefined || list.length === 0 ? undefined : list.reduce((a, b) => Math.min(a, b)),
  sort,
  distinct,
  spread,
  zip,
  shuffle,
  random: (call) => call.evaluation.random(),
  clone(call, value: unknown) {
    const { meter, evaluation } = call
    meter.allocate(meter.weigh(value, MAX_WEIGHT / 2))
    return copied(value, { meter, functions: 'as text', made: (object) => evaluation.cloned.add(object) })
  },
}
