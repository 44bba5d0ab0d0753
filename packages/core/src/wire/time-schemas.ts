/** Durations and moments as JSON Schema. */
import { DAY, DURATION, TIME, TIMESTAMP, ZONE } from '../time/durations.ts'
import type { JsonSchema } from './shape.ts'

/** Longer than nothing, as text; that it is at most ten years long is checked when it is read. */
export const DURATION_SCHEMA: JsonSchema = {
  title: 'Duration',
  type: 'string',
  format: 'duration',
  pattern: DURATION.source.replaceAll(/\((?!\?)/g, '(?:').replace('(?=.)', '(?=.*[1-9])'),
  description: 'ISO 8601, such as PT1H30M; at most ten years',
}
export const TIMESTAMP_SCHEMA: JsonSchema = {
  title: 'Timestamp',
  type: 'string',
  format: 'date-time',
  pattern: TIMESTAMP.source,
  description: 'RFC 3339 with a zone',
}
/** As workers write when they started: the zone may be left out. */
export const LOCAL_TIMESTAMP_SCHEMA: JsonSchema = {
  type: 'string',
  pattern: `^${DAY}[Tt ]${TIME}${ZONE}?$`,
  description: 'ISO 8601; without a zone, UTC is meant',
}
const RELATIVE = DURATION.source.slice(1).replaceAll(/\((?!\?)/g, '(?:')
export const MOMENT_SCHEMA: JsonSchema = {
  title: 'Moment',
  type: 'string',
  pattern: `^(?:${DAY}[Tt ]${TIME}${ZONE}|\\+${RELATIVE.slice(0, -1)})$`,
  description: 'RFC 3339 with a zone, or from now: +PT2S',
}
export const DELAY_SCHEMA: JsonSchema = {
  title: 'Delay',
  type: 'string',
  pattern: `^(?:${DAY}[Tt ]${TIME}${ZONE}|\\+?${RELATIVE.slice(0, -1)})$`,
  description: 'RFC 3339 with a zone, or from now: PT2S or +PT2S',
}
