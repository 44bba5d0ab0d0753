/** Notes of operators, such as deploys: added with the time of what happened, and read back newest first. */
import {
  ANNOTATION,
  annotationPrefix,
  annotationsKeptSince,
  readDoc,
  uuidV7,
  type Annotation,
  type Doc,
  type Instant,
} from '@curfew/core'
import type { Context } from '../kernel/context.ts'

/** So many that are older than they need be kept are removed with each new one. */
const REMOVED_AT_A_TIME = 20

export interface Noted {
  readonly id: string
  readonly annotation: Annotation
}

/** `at` null: now. */
export async function annotate(
  context: Context,
  { at, text, by }: { readonly at: Instant | null; readonly text: string; readonly by: string | null },
): Promise<Noted> {
  const old = await context.look((reads) => reads.docs(ANNOTATION.kind, '', null, REMOVED_AT_A_TIME))
  const end = annotationPrefix(annotationsKeptSince(context.now()))
  const past = old.filter(({ id }) => id < end).map(({ id }) => id)
  return context.run({
    name: 'annotate',
    needs: { docs: past.map((id) => ({ kind: ANNOTATION.kind, id })) },
    run: (unit) => {
      const annotation = { at: at ?? unit.now, text, by }
      const id = `${annotationPrefix(annotation.at)}-${uuidV7(unit.now, context.random)}`
      unit.addDoc(ANNOTATION, id, annotation)
      for (const each of past) unit.putDoc(ANNOTATION, each, null)
      return { id, annotation }
    },
  })
}

/** Of what happened before the cursor; null: the newest. */
export async function annotations(context: Context, cursor: string | null, limit: number): Promise<Noted[]> {
  const docs = await context.look((reads) => reads.docsBelow(ANNOTATION.kind, cursor, limit))
  return docs.map((doc: Doc) => ({ id: doc.id, annotation: readDoc<Annotation>(doc) }))
}
