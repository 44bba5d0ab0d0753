/**
 * The door: path → parse → verb → render. One function from a call to an answer, without sockets; it adds what every
 * answer has, checks what every call must have, and turns refusals into answers. No rules live here.
 */
import { OjsError, uuidV7 } from '@curfew/core'
import type { Engine } from '../engine/engine.ts'
import { ADMIN_ROUTES } from './admin-routes.ts'
import { API_ROUTES } from './api-routes.ts'
import { AT_RISK_ROUTES } from './at-risk-routes.ts'
import { bodyIn } from './body.ts'
import { BULK_ACTION_ROUTES } from './bulk-action-routes.ts'
import { BULK_ROUTES } from './bulk-routes.ts'
import { CRON_ROUTES } from './cron-routes.ts'
import { DEAD_LETTER_ROUTES } from './dead-letter-routes.ts'
import { DEFINITION_ROUTES } from './definition-routes.ts'
import { refusal } from './errors.ts'
import { EXCHANGE_ROUTES } from './exchange-routes.ts'
import { EVENT_ROUTES } from './event-routes.ts'
import { JOB_ROUTES } from './jobs.ts'
import { JOURNEY_ROUTES } from './journey-routes.ts'
import { JSON_MEDIA, OJS_MEDIA, type Answer, type Handler, type HttpRequest, type HttpResponse } from './message.ts'
import { openApi } from './openapi.ts'
import { POOL_ROUTES } from './pool-routes.ts'
import { QUEUE_ROUTES } from './queue-routes.ts'
import { RATE_LIMIT_ROUTES } from './rate-limit-routes.ts'
import { REGISTRY_ROUTES } from './registry-routes.ts'
import type { Call, Route, ServerInfo } from './route.ts'
import { Router } from './router.ts'
import { SCHEMA_ROUTES } from './schema-routes.ts'
import { SIGN_ROUTES } from './signs-routes.ts'
import { SYSTEM_ROUTES } from './system-routes.ts'
import { isAboutAJob, refuseOthersJob, TENANT_ROUTES } from './tenant-routes.ts'
import { TYPE_ROUTES } from './type-routes.ts'
import { WEBHOOK_ROUTES } from './webhook-routes.ts'
import { WORKER_ROUTES } from './worker-routes.ts'
import { WORKFLOW_ROUTES } from './workflow-routes.ts'

export type { Handler }

export interface AppOptions {
  readonly engine: Engine
  readonly info: ServerInfo
  /** True for a header value that lets the caller in; null when no token is set. */
  readonly admits: ((authorization: string | undefined) => boolean) | null
}

export const ROUTES: readonly Route[] = [
  ...SYSTEM_ROUTES,
  ...JOB_ROUTES,
  ...BULK_ROUTES,
  ...BULK_ACTION_ROUTES,
  ...REGISTRY_ROUTES,
  ...WORKER_ROUTES,
  ...EXCHANGE_ROUTES,
  ...SIGN_ROUTES,
  ...QUEUE_ROUTES,
  ...RATE_LIMIT_ROUTES,
  ...DEAD_LETTER_ROUTES,
  ...CRON_ROUTES,
  ...WORKFLOW_ROUTES,
  ...EVENT_ROUTES,
  ...WEBHOOK_ROUTES,
  ...SCHEMA_ROUTES,
  ...POOL_ROUTES,
  ...TYPE_ROUTES,
  ...DEFINITION_ROUTES,
  ...ADMIN_ROUTES,
  ...AT_RISK_ROUTES,
  ...TENANT_ROUTES,
  ...JOURNEY_ROUTES,
  ...API_ROUTES,
]

const NO_QUERY = new URLSearchParams()
export const REQUEST_ID = /^[\x21-\x7e]{1,200}$/

export function createApp({ engine, info, admits }: AppOptions): Handler {
  const router = new Router<Route>()
  const spec = (): Answer => ({ media: JSON_MEDIA, body: JSON.stringify(openApi(routes, info.version)) })
  const routes: readonly Route[] = [
    ...ROUTES,
    { method: 'GET', path: '/openapi.json', tag: 'system', summary: 'This description', handle: spec },
  ]
  for (const route of routes) {
    router.add(route.method, route.path, route)
    for (const alias of route.aliases ?? []) {
      const [method = '', path = ''] = alias.split(' ')
      router.add(method, path, route)
    }
  }

  const answer = (
    request: HttpRequest,
    requestId: string,
    path: string,
    query: URLSearchParams,
  ): Answer | Promise<Answer> => {
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const match = router.match(method, path)
    const open = match.kind === 'found' && match.route.open === true
    const { authorization } = request.headers
    if (!open && admits !== null && !admits(authorization)) {
      const hasToken = /^Bearer +./i.test(authorization ?? '')
      throw new OjsError(
        'unauthenticated',
        hasToken ? 'The token that was sent is not the right one.' : 'A token is needed.',
      )
    }
    if (match.kind === 'unknown')
      throw new OjsError('not_found', 'There is nothing at this path.', { hint: 'GET /openapi.json lists every path.' })
    if (match.kind === 'wrong-method') {
      const allow = match.allow.join(', ')
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: allow }, body: '' }
      throw new OjsError('method_not_allowed', `This path does not take ${method}.`, { details: { allow } })
    }
    checkVersion(request.headers['ojs-version'])
    const { route, params } = match
    const isHere = route.body !== undefined && request.arriving === undefined
    const json = isHere ? bodyIn(request, route) : undefined
    const text = isHere ? request.body : ''
    const call: Call = { engine, info, params, query, request, requestId, text, json }
    if (request.headers['x-ojs-tenant'] === undefined || !isAboutAJob(route)) return route.handle(call)
    return refuseOthersJob(call).then(() => route.handle(call))
  }

  return async (request) => {
    const mark = request.url.indexOf('?')
    const path = mark < 0 ? request.url : request.url.slice(0, mark)
    const query = mark < 0 ? NO_QUERY : new URLSearchParams(request.url.slice(mark + 1))
    const sent = request.headers['x-request-id']
    const requestId = sent !== undefined && REQUEST_ID.test(sent) ? sent : `req_${uuidV7(engine.now(), engine.random)}`
    try {
      const given = await answer(request, requestId, path, query)
      const response = finish(given, requestId)
      if (given.durable === undefined) return response
      request.prepare?.(response)
      await given.durable
      return response
    } catch (error) {
      if (!(error instanceof OjsError)) engine.log.error({ requestId, err: error }, 'a request broke')
      return finish(refusal(error, requestId, path.startsWith('/api/')), requestId)
    }
  }
}

function finish({ status = 200, headers, body, media = OJS_MEDIA }: Answer, requestId: string): HttpResponse {
  const common: Record<string, string> =
    status === 204
      ? { 'OJS-Version': '1.0', 'X-Request-Id': requestId }
      : { 'Content-Type': media, 'OJS-Version': '1.0', 'X-Request-Id': requestId }
  return { status, headers: Object.assign(common, headers), body }
}

function checkVersion(version: string | undefined): void {
  if (version === undefined || /^1(\.|$)/.test(version.trim())) return
  throw new OjsError('unsupported', 'This server speaks version 1 of the Open Job Spec.', {
    details: { header: 'OJS-Version' },
  })
}
