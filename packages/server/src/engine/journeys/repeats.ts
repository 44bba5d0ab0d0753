/** Finds the run that a start has begun before, by its key or by the id its caller chose (core/journey/run/repeats.ts). */
import { checkRepeat, RUN, START_KEY, startText, type Asked, type DocKind, type Run } from '@curfew/core'
import { createHash } from 'node:crypto'
import type { Needs } from '../kernel/needs.ts'

/** What makes a start repeatable. */
export interface Repeatable {
  readonly key: string | null
  /** The document of the key. */
  readonly keyId: string | null
  readonly ownId: string | null
  readonly print: string
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Null: each such start begins a run of its own. */
export function repeatableOf(key: string | null, asked: Asked): Repeatable | null {
  const { ownId, name } = asked
  if (key === null && ownId === null) return null
  const keyId = key === null ? null : `${name}/${hashOf(key)}`
  return { key, keyId, ownId, print: hashOf(startText(asked)) }
}

/** Two servers that start the same at once do so one after the other. */
export function needsOfRepeat({ keyId, ownId }: Repeatable): Needs {
  const docs = [
    ...(keyId === null ? [] : [{ kind: START_KEY.kind, id: keyId }]),
    ...(ownId === null ? [] : [{ kind: RUN.kind, id: ownId }]),
  ]
  return { docs, names: docs.map(({ kind, id }) => `${kind} ${id}`) }
}

export type FindDoc = <T>(kind: DocKind<T>, id: string) => Promise<T | null>

export async function earlierRun(find: FindDoc, { key, keyId, ownId, print }: Repeatable): Promise<Run | null> {
  const keyed = keyId === null ? null : await find(START_KEY, keyId)
  const byKey = keyed === null ? null : await find(RUN, keyed.run)
  if (byKey !== null) {
    checkRepeat(byKey, { key, print })
    return byKey
  }
  const byId = ownId === null ? null : await find(RUN, ownId)
  if (byId !== null) checkRepeat(byId, { key: null, print })
  return byId
}
