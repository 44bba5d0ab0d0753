/** The results that steps hand on to the jobs after them. */
import type { Fragment, Json } from '../job/job.ts'
import { elementsOf } from '../wire/json/json-text.ts'

/** The results handed on to one job take at most this much; the oldest are left out. */
export const MAX_PARENT_RESULTS = 4 * 1024 * 1024

/** Results of others, as the inside of an array, and how many of them had to be left out. */
export interface Results {
  readonly list: Fragment
  readonly omitted: number
}

export const NO_RESULTS: Results = { list: '', omitted: 0 }

/** The results of a chain so far, with one more. */
export function appended({ list, omitted }: Results, index: number, result: Json): Results {
  const joined = index === 0 ? result : `${list},${result}`
  if (joined.length <= MAX_PARENT_RESULTS) return { list: joined, omitted }
  return within(elementsOf(`[${joined}]`), omitted)
}

/** As much as may be handed on: the oldest give way, the last one is always there. */
export function within(results: readonly Json[], omittedBefore = 0): Results {
  let size = results.reduce((sum, { length }) => sum + length + 1, 0)
  const kept = [...results]
  let omitted = omittedBefore
  for (let index = 0; size > MAX_PARENT_RESULTS && index < kept.length - 1; index += 1) {
    const length = kept[index]?.length ?? 0
    if (length <= NULL.length) continue
    size -= length - NULL.length
    kept[index] = NULL
    omitted += 1
  }
  return { list: kept.join(','), omitted }
}

const NULL: Json = 'null'
