/** By which values of its stored texts a job is found: type and kind of its error, tags, metadata. */
import { TIMEOUT_KINDS, type TimeoutKind } from '../../job/failures.ts'
import type { Job } from '../../job/job.ts'
import { canonical } from '../json/canonical.ts'
import { membersOf } from '../json/json-text.ts'

export function hasMeta({ body }: Job, wanted: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(wanted)
  if (keys.length === 0) return true
  const meta = membersOf(membersOf(`{${body}}`).get('meta')?.value ?? '{}')
  return keys.every((key) => {
    const member = meta.get(key)
    return member !== undefined && canonical(member.value) === wanted[key]
  })
}

/** An index holds at most so many characters of a text. */
const MAX_KEY = 200

export const keyOf = (text: string): string => text.slice(0, MAX_KEY)

export interface ErrorKeys {
  readonly type: string | null
  readonly kind: TimeoutKind | null
}

export const NO_ERROR: ErrorKeys = { type: null, kind: null }

export function errorKeys({ error }: Pick<Job, 'error'>): ErrorKeys {
  if (error === null) return NO_ERROR
  const read = JSON.parse(error) as { type?: unknown; timeout_kind?: unknown } | null
  const [type, kind] = [read?.type, read?.timeout_kind]
  return {
    type: typeof type === 'string' ? keyOf(type) : null,
    kind: TIMEOUT_KINDS.find((known) => known === kind) ?? null,
  }
}

/** Each once. Most jobs have none, which is seen without reading what was sent. */
export function tagKeys({ body }: Pick<Job, 'body'>): readonly string[] {
  if (!body.includes('"tags"')) return NO_TAGS
  const value = membersOf(`{${body}}`).get('tags')?.value
  if (value === undefined) return NO_TAGS
  const tags = JSON.parse(value) as unknown
  if (!Array.isArray(tags)) return NO_TAGS
  return [...new Set(tags.filter((tag) => typeof tag === 'string').map(keyOf))]
}

const NO_TAGS: readonly string[] = []
