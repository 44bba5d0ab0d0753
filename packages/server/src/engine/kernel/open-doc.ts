/** Documents inside a unit of work: their records are read, and written out only when they are saved. */
import type { Doc, DocName, Instant } from '@curfew/core'
import type { Change } from '../../store/store.ts'
import type { LongDocs } from './long-docs.ts'
import type { DocChange } from './parts.ts'

/** A document with its record read. */
export interface OpenDoc extends DocName {
  readonly version: number
  readonly wakeAt: Instant | null
  readonly record: unknown
  /** Its body, once it is known: large ones are not made into text twice. */
  readonly text: { body: string | null }
  /** Makes the body in turns, where it is long. */
  readonly write?: (docs: LongDocs) => string | null | Promise<string>
}

export const open = (doc: Doc, record: unknown): OpenDoc => ({
  kind: doc.kind,
  id: doc.id,
  version: doc.version,
  wakeAt: doc.wakeAt,
  record,
  text: { body: doc.body },
})

function closed(doc: OpenDoc | null): Doc | null {
  if (doc === null) return null
  const { kind, id, version, wakeAt, record, text } = doc
  text.body ??= JSON.stringify(record)
  return { kind, id, version, wakeAt, body: text.body }
}

export const writtenOut = ({ before, after }: Change<OpenDoc>): DocChange => ({
  before: closed(before),
  after: closed(after),
})

/** Kinds have no space. */
export const keyOf = ({ kind, id }: DocName): string => `${kind} ${id}`
