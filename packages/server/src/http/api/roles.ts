/**
 * Which roles may call which route; one of them is enough, and admin always is. The whole of it stands on this page, so
 * that what a role may do can be reviewed at once. A route that is not named here needs `read` if it is a GET, and `admin`
 * otherwise: what is forgotten is closed. `tests/scenarios/roles.test.ts` plays every operation with every role.
 */
import { ROLES, type Role } from '@curfew/core'
import type { Route } from './route.ts'

type Way = Pick<Route, 'method' | 'path'>

const [READ, PRODUCE, WORK, OPERATE, ADMIN] = [['read'], ['produce'], ['work'], ['operate'], ['admin']] as const
const RESULTS = ['read', 'produce'] as const
const HELD = ['read', 'work'] as const
const PRODUCE_OR_OPERATE = ['produce', 'operate'] as const

export const ROLES_OF: Readonly<Record<string, readonly Role[]>> = {
  // Everyone with a token.
  'GET /openapi.json': ROLES,
  'POST /api/v1/session': ROLES,
  'DELETE /api/v1/session': ROLES,

  // Producers: what they send, and what became of it.
  'POST /ojs/v1/jobs': PRODUCE,
  'POST /ojs/v1/jobs/batch': PRODUCE,
  'POST /ojs/v1/jobs/bulk': PRODUCE,
  'POST /ojs/v1/jobs/plan': RESULTS,
  'GET /ojs/v1/jobs/:id': ['read', 'produce', 'work'],
  'GET /ojs/v1/jobs/:id/explain': RESULTS,
  'GET /ojs/v1/jobs/:id/retries': RESULTS,
  'GET /ojs/v1/jobs/:id/result': RESULTS,
  'GET /ojs/v1/jobs/:id/events': RESULTS,
  'GET /ojs/v1/jobs/:id/progress': RESULTS,
  'GET /ojs/v1/jobs/:id/progress/stream': RESULTS,
  'POST /ojs/v1/workflows': PRODUCE,
  'GET /ojs/v1/workflows/:id': RESULTS,
  'GET /ojs/v1/workflows/:id/progress': RESULTS,
  'POST /api/v1/journeys/:id/start': PRODUCE,
  'GET /api/v1/journeys/:id': RESULTS,
  'GET /api/v1/journeys/:id/result': RESULTS,
  'GET /api/v1/journeys/:id/explain': RESULTS,
  'POST /api/v1/apis/*path': PRODUCE,
  'POST /api/v1/definitions:validate': RESULTS,

  // Producers and operators.
  'POST /ojs/v1/jobs/:id/activate': PRODUCE_OR_OPERATE,
  'POST /api/v1/journeys/:id/steps/:stepId': PRODUCE_OR_OPERATE,
  'POST /ojs/v1/cron': PRODUCE_OR_OPERATE,

  // Workers.
  'POST /ojs/v1/workers/register': WORK,
  'POST /ojs/v1/workers/deregister': WORK,
  'POST /ojs/v1/workers/fetch': WORK,
  'POST /ojs/v1/workers/ack': WORK,
  'POST /ojs/v1/jobs/:id/ack': WORK,
  'POST /ojs/v1/workers/nack': WORK,
  'POST /ojs/v1/jobs/:id/nack': WORK,
  'POST /ojs/v1/workers/heartbeat': WORK,
  'POST /ojs/v1/workers/exchange': WORK,
  'PUT /ojs/v1/jobs/:id/progress': WORK,
  'POST /ojs/v1/workers/progress': WORK,
  'PUT /ojs/v1/jobs/:id/checkpoint': WORK,
  'GET /ojs/v1/jobs/:id/checkpoint': HELD,
  'DELETE /ojs/v1/jobs/:id/checkpoint': WORK,
  'GET /ojs/v1/checkpoints/:id/resume': HELD,
  'DELETE /ojs/v1/workers/:id': ['work', 'operate'],

  // Operators.
  'PATCH /ojs/v1/jobs/:id': OPERATE,
  'DELETE /ojs/v1/jobs/:id': OPERATE,
  'POST /ojs/v1/jobs/bulk/cancel': OPERATE,
  'POST /ojs/v1/jobs/bulk/retry': OPERATE,
  'POST /ojs/v1/admin/jobs/bulk/cancel': OPERATE,
  'POST /ojs/v1/admin/jobs/bulk/retry': OPERATE,
  'POST /ojs/v1/admin/jobs/:id/retry': OPERATE,
  'POST /ojs/v1/admin/jobs/:id/cancel': OPERATE,
  'POST /ojs/v1/dead-letter/retry': OPERATE,
  'POST /ojs/v1/dead-letter/:id/retry': OPERATE,
  'POST /ojs/v1/queues/:name/pause': OPERATE,
  'POST /ojs/v1/queues/:name/drain': OPERATE,
  'POST /ojs/v1/queues/:name/resume': OPERATE,
  'POST /ojs/v1/admin/queues/:name/pause': OPERATE,
  'POST /ojs/v1/admin/queues/:name/resume': OPERATE,
  'POST /ojs/v1/admin/workers/:id/quiet': OPERATE,
  'POST /ojs/v1/admin/workers/:id/terminate': OPERATE,
  'POST /ojs/v1/admin/workers/:id/resume': OPERATE,
  'DELETE /ojs/v1/admin/workers/:id': OPERATE,
  'PATCH /ojs/v1/cron/:name': OPERATE,
  'DELETE /ojs/v1/cron/:name': OPERATE,
  'POST /ojs/v1/cron/:name/trigger': OPERATE,
  'POST /ojs/v1/cron/:name/pause': OPERATE,
  'POST /ojs/v1/cron/:name/resume': OPERATE,
  'DELETE /ojs/v1/workflows/:id': OPERATE,
  'POST /api/v1/journeys/:id/steps/cancel': OPERATE,
  'DELETE /api/v1/schedules/:id': OPERATE,
  'POST /ojs/v1/webhooks/subscriptions/:id/test': OPERATE,
  'POST /ojs/v1/webhooks/deliveries/:id/retry': OPERATE,
  'POST /api/v1/annotations': OPERATE,

  // Administrators: limits, configuration, deletion, tokens.
  'POST /ojs/v1/jobs/bulk/delete': ADMIN,
  'POST /ojs/v1/admin/jobs/bulk/delete': ADMIN,
  'DELETE /ojs/v1/dead-letter': ADMIN,
  'DELETE /ojs/v1/dead-letter/:id': ADMIN,
  'DELETE /ojs/v1/admin/dead-letter/:id': ADMIN,
  'PUT /ojs/v1/admin/queues/:name/config': ADMIN,
  'PUT /ojs/v1/admin/queues/:name/rate-limit': ADMIN,
  'PUT /ojs/v1/admin/pools/:name': ADMIN,
  'DELETE /ojs/v1/admin/pools/:name': ADMIN,
  'PUT /api/v1/job-types/:type': ADMIN,
  'DELETE /api/v1/job-types/:type': ADMIN,
  'PUT /api/v1/definitions/:name': ADMIN,
  'POST /ojs/v1/schemas': ADMIN,
  'DELETE /ojs/v1/schemas/:name': ADMIN,
  'DELETE /ojs/v1/schemas/:name/:version': ADMIN,
  'PUT /ojs/v1/admin/schemas/:type/:version': ADMIN,
  'DELETE /ojs/v1/admin/schemas/:type/:version': ADMIN,
  'POST /ojs/v1/webhooks/subscriptions': ADMIN,
  'PATCH /ojs/v1/webhooks/subscriptions/:id': ADMIN,
  'DELETE /ojs/v1/webhooks/subscriptions/:id': ADMIN,
  'POST /ojs/v1/webhooks/subscriptions/:id/rotate-secret': ADMIN,
  'POST /ojs/v1/admin/reset': ADMIN,
  'POST /ojs/v1/admin/clock': ADMIN,
  'GET /api/v1/tokens': ADMIN,
  'POST /api/v1/tokens': ADMIN,
  'POST /api/v1/tokens/:name/rotate': ADMIN,
  'DELETE /api/v1/tokens/:name': ADMIN,
}

/** Those that may call a route, admin aside. */
export function rolesOf({ method, path }: Way): readonly Role[] {
  return ROLES_OF[`${method} ${path}`] ?? (method === 'GET' ? READ : ADMIN)
}

/** Whether it is written down who called: what operators and administrators change. */
export function isNoted(route: Way): boolean {
  const roles = rolesOf(route)
  return route.method !== 'GET' && roles !== ROLES && (roles.includes('operate') || roles.includes('admin'))
}
