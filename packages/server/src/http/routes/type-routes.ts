/** Type policies under /api/v1: plain JSON, errors as problem details. */
import {
  anyObject,
  iso,
  limitShapes,
  notFound,
  object,
  onTimeoutShape,
  readTypePolicy,
  TYPE_SHAPE,
  VALIDATION_SHAPE,
  type TypePolicy,
} from '@curfew/core'
import { deleteTypePolicy, putTypePolicy } from '../../engine/queues/queue.ts'
import { JSON_MEDIA } from '../api/message.ts'
import { param, type Call, type Route } from '../api/route.ts'

const CAPS_SHAPE = object(limitShapes(), { unknown: 'refuse' })
const POLICY_SHAPE = object(
  { ...limitShapes(), x_on_timeout: onTimeoutShape(), caps: CAPS_SHAPE, validation: VALIDATION_SHAPE },
  { unknown: 'refuse' },
)

const view = ({ type, sent, updatedAt }: TypePolicy): Record<string, unknown> => ({
  type,
  ...sent,
  updated_at: iso(updatedAt),
})
const typeOf = (call: Call): string => TYPE_SHAPE.read(param(call, 'type'), 'type')

export const TYPE_ROUTES: readonly Route[] = [
  {
    method: 'PUT',
    path: '/api/v1/job-types/:type',
    tag: 'job types',
    summary: 'Set limits and caps for every job of a type; replaces the former policy',
    body: { shape: POLICY_SHAPE },
    handle: async (call) => {
      const policy = readTypePolicy(typeOf(call), anyObject().read(call.json, ''), call.engine.now())
      return { body: JSON.stringify(view(await call.engine.run(putTypePolicy(policy)))), media: JSON_MEDIA }
    },
  },
  {
    method: 'GET',
    path: '/api/v1/job-types/:type',
    tag: 'job types',
    summary: 'The policy of a type',
    handle: async (call) => {
      const type = typeOf(call)
      const policy = (await call.engine.read((reads) => reads.types())).find((known) => known.type === type)
      if (policy === undefined) throw notFound('job type policy', type)
      return { body: JSON.stringify(view(policy)), media: JSON_MEDIA }
    },
  },
  {
    method: 'GET',
    path: '/api/v1/job-types',
    tag: 'job types',
    summary: 'All policies',
    handle: async (call) => {
      const policies = await call.engine.read((reads) => reads.types())
      return { body: JSON.stringify({ items: policies.map(view) }), media: JSON_MEDIA }
    },
  },
  {
    method: 'DELETE',
    path: '/api/v1/job-types/:type',
    tag: 'job types',
    summary: 'Remove the policy; stored jobs keep what they were given',
    handle: async (call) => {
      const type = typeOf(call)
      if (!(await call.engine.run(deleteTypePolicy(type)))) throw notFound('job type policy', type)
      return { body: JSON.stringify({ deleted: true, type }), media: JSON_MEDIA }
    },
  },
]
