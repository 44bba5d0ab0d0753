/** A note of an operator with its time, such as a deploy: shown beside what happened on the server. */
import { docKind } from '../doc.ts'
import { days, minutes, type Instant } from '../time/clock.ts'
import { before } from '../time/sums.ts'

export interface Annotation {
  /** When it happened, which may be before it was noted. */
  readonly at: Instant
  readonly text: string
  /** The name of the token; null: the server has none. */
  readonly by: string | null
}

/** Ids grow with the time of what happened. */
export const ANNOTATION = docKind<Annotation>('annotation')

export const MAX_ANNOTATION = 500

/** Clocks of operators may be ahead of the server's by so much. */
export const MAX_ANNOTATION_LEAD_MS = minutes(5)

const KEPT_MS = days(90)

/** Notes of what happened before this instant need not be kept. */
export const annotationsKeptSince = (now: Instant): Instant => before(now, KEPT_MS)

const HEX_DIGITS = 12

/** All ids of that instant or later sort after this. */
export const annotationPrefix = (at: Instant): string => at.toString(16).padStart(HEX_DIGITS, '0')
