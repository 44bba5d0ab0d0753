/** Notes of operators on the wire. */
import { MAX_ANNOTATION, type Annotation } from '../access/annotation.ts'
import { iso } from '../time/clock.ts'
import { TIMESTAMP_SHAPE } from './job/job-filter.ts'
import { object, text, type Fields } from './shape.ts'

export const ANNOTATION_SHAPE = object(
  { text: text({ min: 1, maxLength: MAX_ANNOTATION }), at: TIMESTAMP_SHAPE },
  { required: ['text'], unknown: 'refuse' },
)

export const annotationView = (id: string, { at, text: words, by }: Annotation): Fields => ({
  id,
  time: iso(at),
  text: words,
  by,
})
