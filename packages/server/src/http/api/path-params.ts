/** Shapes of path parameters, by the segment before them. */
import {
  CRON_NAME_SHAPE,
  LIMIT_KEY_SHAPE,
  POOL_NAME_SHAPE,
  QUEUE_SHAPE,
  TENANT_SHAPE,
  text,
  TOKEN_NAME_SHAPE,
  TYPE_SHAPE,
  type JsonSchema,
  type Shape,
} from '@curfew/core'

const BEFORE: Readonly<Record<string, Shape<string>>> = {
  queues: QUEUE_SHAPE,
  cron: CRON_NAME_SHAPE,
  pools: POOL_NAME_SHAPE,
  tenants: TENANT_SHAPE,
  tokens: TOKEN_NAME_SHAPE,
  'rate-limits': LIMIT_KEY_SHAPE,
  'job-types': TYPE_SHAPE,
}
/** Parameters with these names are always a version or a type. */
const BY_NAME: Readonly<Record<string, Shape<string>>> = {
  type: TYPE_SHAPE,
  version: text({ pattern: /^\d{1,9}(?:\.\d{1,9}){0,2}$/ }),
}
/** An id that is not known is a 404, whatever it looks like. */
const ANY_ID = text({ min: 1, maxLength: 255 })

/** `path` as routes write it: `/ojs/v1/queues/:name/stats`. */
export function paramSchema(path: string, name: string): JsonSchema {
  const segments = path.split('/')
  const before = segments[segments.findIndex((segment) => /^[:*]/.test(segment) && segment.slice(1) === name) - 1] ?? ''
  return (BEFORE[before] ?? BY_NAME[name] ?? ANY_ID).json
}
