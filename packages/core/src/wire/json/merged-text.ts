import type { Json } from '../../job/job.ts'
import { membersOf } from './json-text.ts'

/** Two objects in one, as written; what the second says wins. */
export function mergedText(under: string | undefined, over: string | undefined): Json {
  if (under === undefined) return over ?? '{}'
  const members = new Map([...membersOf(under), ...(over === undefined ? [] : membersOf(over))])
  return `{${[...members.values()].map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`
}
