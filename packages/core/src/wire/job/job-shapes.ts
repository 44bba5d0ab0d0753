/** The fields of a job: the documented form of an enqueue request. */
import { badField, OjsError } from '../../errors.ts'
import { isUuidV7, UUID_V7 } from '../../ids.ts'
import type { Parent } from '../../job/job.ts'
import { RATE_LIMIT_SHAPE } from './rate-limit.ts'
import { instant, type Instant } from '../../time/clock.ts'
import { parseMoment, type NamedMoment } from '../../time/durations.ts'
import { DELAY_SCHEMA, LOCAL_TIMESTAMP_SCHEMA, MOMENT_SCHEMA } from '../time-schemas.ts'
import { FEW_FIELDS } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { limitShapes, ON_TIMEOUT_FIELD, onTimeoutShape } from './limits.ts'
import { RETRY_POLICY_SHAPE } from './retry.ts'
import {
  anyList,
  anyObject,
  flag,
  list,
  named,
  object,
  policy,
  ruled,
  text,
  whole,
  type Fields,
  type JsonSchema,
  type Shape,
} from '../shape.ts'
import { UNIQUE_SHAPE } from './unique.ts'

export const TYPE_SHAPE = text({
  pattern: /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/,
  maxLength: 255,
  expected: 'a job type such as "email.send": lower-case words of letters, digits, "_" and "-", joined by dots',
})
export const QUEUE_SHAPE = text({
  pattern: /^[a-z0-9][a-z0-9.-]*$/,
  maxLength: 128,
  expected: 'a queue name such as "default": lower-case letters, digits, "." and "-", at most 128',
})
export const ID_SHAPE: Shape<string> = {
  json: { type: 'string', format: 'uuid', pattern: UUID_V7.source, description: 'UUIDv7, lower case' },
  read(value, at) {
    if (typeof value !== 'string' || !isUuidV7(value)) throw badField(at, `${at} must be a UUIDv7 in lower case.`)
    return value
  },
}
/** When a worker says that it started: kept and shown as it was sent. ISO 8601 lets the zone be left out. */
export const STARTED_AT_SHAPE: Shape<string> = {
  json: LOCAL_TIMESTAMP_SCHEMA,
  read(value, at) {
    const said = typeof value === 'string' && !value.startsWith('+') ? value : ''
    if ([said, `${said}Z`].every((moment) => parseMoment(moment, instant(0), false) === null))
      throw badField(at, `${at} must be an ISO 8601 timestamp ("2030-01-01T00:00:00Z").`)
    return said
  },
}

/** Control characters in a worker's name would travel into logs and terminals. */
export const WORKER_ID_SHAPE = text({
  // eslint-disable-next-line no-control-regex
  pattern: /^[^\u0000-\u001f\u007f-\u009f]+$/,
  min: 1,
  maxLength: 255,
  expected: 'a worker id: 1 to 255 characters, none of them a control character',
})

/** What it means depends on when it came; here only whether it means something. */
const momentShape = (json: JsonSchema, allowBareDuration: boolean): Shape<unknown> => ({
  json,
  read: (value, at) => momentIn(value, at, instant(0), allowBareDuration).text,
})

/** An instant, or a length from the moment at which the request is decided: as it was written. */
export const MOMENT_SHAPE: Shape<string> = {
  json: MOMENT_SCHEMA,
  read: (value, at) => {
    momentIn(value, at, instant(0), false)
    return String(value)
  },
}

const ID_OR_NONE: JsonSchema = { type: ['string', 'null'] }

export const PARENT_SHAPE: Shape<Parent> = {
  json: {
    title: 'Parent',
    type: 'object',
    properties: { job_id: ID_OR_NONE, journey_id: ID_OR_NONE, workflow_id: ID_OR_NONE },
    additionalProperties: { type: 'null' },
    oneOf: ['job_id', 'journey_id', 'workflow_id'].map((key) => ({
      required: [key],
      properties: { [key]: { type: 'string' } },
    })),
    description: 'Exactly one of them',
  },
  read: (value) => readParent(value),
}

/** Fields that may stand at the top or in `options`; a top-level value wins. */
export const OPTION_SHAPES = {
  queue: QUEUE_SHAPE,
  priority: whole(-100, 100),
  ...limitShapes(),
  [ON_TIMEOUT_FIELD]: onTimeoutShape(),
  scheduled_at: momentShape(MOMENT_SCHEMA, false),
  delay_until: momentShape(DELAY_SCHEMA, true),
  expires_at: momentShape(MOMENT_SCHEMA, false),
  retry: RETRY_POLICY_SHAPE,
  retry_policy: RETRY_POLICY_SHAPE,
  metadata: anyObject(),
  tags: list(text()),
  pending: flag(),
  result_ttl: policy(whole(1, 315_360_000)),
  rate_limit: RATE_LIMIT_SHAPE,
  unique: UNIQUE_SHAPE,
  x_parent: PARENT_SHAPE,
  x_inherit_deadline: flag(),
} as const satisfies Record<string, Shape<unknown>>

export const OPTION_NAMES: readonly string[] = Object.keys(OPTION_SHAPES)

export const TOP_SHAPES = {
  type: TYPE_SHAPE,
  args: anyList(),
  id: ID_SHAPE,
  specversion: text({ pattern: /^1\.0$/, expected: '"1.0"' }),
  meta: anyObject(),
  schema: text(),
} as const

/** The documented form of an enqueue request. */
export const OPTIONS_SHAPE = named('JobOptions', ruled(object(OPTION_SHAPES), FEW_FIELDS))
export const JOB_FIELDS = { ...TOP_SHAPES, ...OPTION_SHAPES, options: OPTIONS_SHAPE } as const
export const ENQUEUE_SHAPE = named(
  'EnqueueRequest',
  ruled(object(JOB_FIELDS, { required: ['type', 'args'] }), FEW_FIELDS),
)

/** A field that means something to an enqueue. */
export const isJobField = (key: string): boolean =>
  key === 'options' || Object.hasOwn(TOP_SHAPES, key) || Object.hasOwn(OPTION_SHAPES, key)

export function readMoment(fields: Fields, key: string, now: Instant, allowBareDuration = false): NamedMoment | null {
  const value = Object.hasOwn(fields, key) ? fields[key] : undefined
  if (!isGiven(value)) return null
  return momentIn(value, key, now, allowBareDuration)
}

function momentIn(value: unknown, at: string, now: Instant, allowBareDuration: boolean): NamedMoment {
  const moment = typeof value === 'string' ? parseMoment(value, now, allowBareDuration) : null
  if (moment === null)
    throw badField(
      at,
      `${at} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z") or relative ("+PT5M").`,
    )
  return moment
}

const PARENTS = { job_id: 'job', journey_id: 'journey', workflow_id: 'workflow' } as const

export function readParent(value: unknown): Parent {
  const fields = policy(anyObject()).read(value, 'x_parent')
  const keys = Object.keys(fields).filter((key) => isGiven(fields[key]))
  const key = keys[0]
  const id = key === undefined ? undefined : fields[key]
  if (keys.length !== 1 || key === undefined || !Object.hasOwn(PARENTS, key) || typeof id !== 'string') {
    throw new OjsError('validation_error', 'x_parent must name exactly one of job_id, journey_id or workflow_id.', {
      details: { field: 'x_parent' },
    })
  }
  return { kind: PARENTS[key as keyof typeof PARENTS], id }
}
