/**
 * The application: path → parse → verb → render. One function from a call to an answer, without sockets. It adds the headers
 * of every answer, checks what every call must have, and turns refusals into answers. It holds no rules.
 */
import { EnqueueMemory, OjsError, roleBits, ROLES, uuidV7, type Redaction, type Role } from '@curfew/core'
import { Access } from '../../engine/access/access.ts'
import { Audit } from '../../engine/access/audit.ts'
import { ANYONE, type Caller } from '../../engine/access/caller.ts'
import type { Engine } from '../../engine/engine.ts'
import { ADMIN_ROUTES } from '../routes/admin-routes.ts'
import { ANNOTATION_ROUTES } from '../routes/annotation-routes.ts'
import { API_ROUTES } from '../routes/api-routes.ts'
import { AT_RISK_ROUTES } from '../routes/at-risk-routes.ts'
import { AUDIT_ROUTES } from '../routes/audit-routes.ts'
import { BOARD_JOB_ROUTES } from '../routes/board-job-routes.ts'
import { bodyIn, checkUnread } from './body.ts'
import { BOARD_ROUTES } from '../routes/board-routes.ts'
import { BULK_ACTION_ROUTES } from '../routes/bulk-action-routes.ts'
import { BULK_ROUTES } from '../routes/bulk-routes.ts'
import { CRON_ROUTES } from '../routes/cron-routes.ts'
import { DEAD_LETTER_ROUTES } from '../routes/dead-letter-routes.ts'
import { DEFINITION_ROUTES } from '../routes/definition-routes.ts'
import { admit, type Door } from './door.ts'
import { refusal } from './errors.ts'
import { EXCHANGE_ROUTES } from '../routes/exchange-routes.ts'
import { EVENT_ROUTES } from '../routes/event-routes.ts'
import { JOB_ROUTES } from '../routes/job-routes.ts'
import { JOURNEY_ROUTES } from '../routes/journey-routes.ts'
import {
  isTimed,
  JSON_MEDIA,
  OJS_MEDIA,
  type Answer,
  type Handler,
  type HttpRequest,
  type HttpResponse,
} from './message.ts'
import { openApi, operationId } from './openapi.ts'
import { POOL_ROUTES } from '../routes/pool-routes.ts'
import { readQuery } from './query.ts'
import { QUEUE_ROUTES } from '../routes/queue-routes.ts'
import { RATE_LIMIT_ROUTES } from '../routes/rate-limit-routes.ts'
import { mustRedact, redactedAnswer } from './redacted.ts'
import { REGISTRY_ROUTES } from '../routes/registry-routes.ts'
import type { Call, Route, ServerInfo } from './route.ts'
import { isNoted, rolesOf } from './roles.ts'
import { Router, type Match } from './router.ts'
import { SCHEDULE_ROUTES } from '../routes/schedule-routes.ts'
import { FORESIGHT_ROUTES } from '../routes/foresight-routes.ts'
import { SEARCH_ROUTES } from '../routes/search-routes.ts'
import { SERIES_ROUTES } from '../routes/series-routes.ts'
import { SCHEMA_ROUTES } from '../routes/schema-routes.ts'
import { SESSION_ROUTES } from '../routes/session-routes.ts'
import { SIGN_ROUTES } from '../routes/signs-routes.ts'
import { SYSTEM_ROUTES } from '../routes/system-routes.ts'
import { isAboutAJob, refuseOthersJob, TENANT_ROUTES } from '../routes/tenant-routes.ts'
import { TOKEN_ROUTES } from '../routes/token-routes.ts'
import { TYPE_ROUTES } from '../routes/type-routes.ts'
import { whileAdmitted } from './while-admitted.ts'
import { WEBHOOK_ROUTES } from '../routes/webhook-routes.ts'
import { WORKER_ROUTES } from '../routes/worker-routes.ts'
import { WORKFLOW_ROUTES } from '../routes/workflow-routes.ts'

export type { Handler }

export interface AppOptions {
  readonly engine: Engine
  readonly info: ServerInfo
  /** Who may call; if it is left out, there is no token. */
  readonly access?: Access
  /** Callers reach this server by TLS, without a proxy. */
  readonly isTls?: boolean
  /** Served besides loopback where no token is set (`origin.ts`). */
  readonly allowedHosts?: readonly string[]
  /** What people are not shown (`redacted.ts`); if it is left out, everything is. */
  readonly redaction?: Redaction | null
  /** The content type of what the specification asks for, if it is not the plain one. */
  readonly media?: string
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
  ...BOARD_JOB_ROUTES,
  ...SERIES_ROUTES,
  ...FORESIGHT_ROUTES,
  ...SEARCH_ROUTES,
  ...TENANT_ROUTES,
  ...JOURNEY_ROUTES,
  ...SCHEDULE_ROUTES,
  ...API_ROUTES,
  ...SESSION_ROUTES,
  ...TOKEN_ROUTES,
  ...AUDIT_ROUTES,
  ...ANNOTATION_ROUTES,
]

/** A route with what is asked of its callers. */
interface Served extends Route {
  readonly roles: readonly Role[]
  readonly bits: number
  readonly isNoted: boolean
}

/** Every token may ask for a path that is not there. */
const EVERY_ROLE = roleBits(ROLES)

function served(route: Route): Served {
  const roles = rolesOf(route)
  return { ...route, roles, bits: roleBits(['admin', ...roles]), isNoted: isNoted(route) }
}

/** A call, as far as it was read. */
interface Read extends Pick<Call, 'request' | 'requestId' | 'caller'> {
  readonly search: string
  /** Null where the route asks for it itself. */
  readonly body: string | null
  readonly hasBody: boolean
}

const REQUEST_ID = /^[\x21-\x7e]{1,200}$/

export function createApp(options: AppOptions): Handler {
  const { engine, info, allowedHosts = [], media = OJS_MEDIA, isTls = false, redaction: hidden = null } = options
  const door: Door = { access: options.access ?? new Access(engine), allowedHosts, isTls }
  const audit = new Audit(engine)
  const router = new Router<Served>()
  const memory = new EnqueueMemory()
  // A few hundred kilobytes that do not change while the server runs.
  let description: string | undefined
  const spec = (): Answer => ({
    media: JSON_MEDIA,
    body: (description ??= JSON.stringify(openApi(routes, info.version))),
  })
  const routes: readonly Route[] = [
    ...ROUTES,
    { method: 'GET', path: '/openapi.json', tag: 'system', summary: 'This description', handle: spec },
  ]
  // Pages and files of the board are for browsers: not a part of the API that is described.
  for (const route of [...routes, ...BOARD_ROUTES].map(served)) {
    router.add(route.method, route.path, route)
    for (const alias of [...(route.aliases ?? []), ...(route.quirks ?? [])]) {
      const [method = '', path = ''] = alias.split(' ')
      router.add(method, path, route)
    }
  }

  /** Checks the head of the call before reading the rest of its body. */
  const answer = (request: HttpRequest, requestId: string, path: string, search: string): Answer | Promise<Answer> => {
    const match = router.match(methodOf(request), path)
    const caller = callerOf(request, match)
    refuseDelivery(request)
    const { arriving, skipping } = request
    const called = { request, requestId, search, caller }
    if (arriving === undefined) return answerTo(match, { ...called, body: request.body, hasBody: request.body !== '' })
    if (isTimed(request.url)) return answerTo(match, { ...called, body: null, hasBody: false })
    // What no route looks at is not held: some routes are open without a token.
    if (skipping !== undefined && (match.kind !== 'found' || match.route.body === undefined))
      return skipping().then((hasBody) => answerTo(match, { ...called, body: '', hasBody }))
    return arriving().then((body) => answerTo(match, { ...called, body, hasBody: body !== '' }))
  }

  const callerOf = (request: HttpRequest, match: Match<Served>): Caller => {
    if (match.kind !== 'found') return admit(door, request, EVERY_ROLE, ROLES)
    const { open, bits, roles } = match.route
    if (open === true && !door.access.isOpen) return UNKNOWN_CALLER
    return admit(door, request, bits, roles)
  }

  const answerTo = (
    match: Match<Served>,
    { request, requestId, search, caller, body, hasBody }: Read,
  ): Answer | Promise<Answer> => {
    const method = methodOf(request)
    if (match.kind === 'unknown')
      throw new OjsError('not_found', 'There is nothing at this path.', { hint: 'GET /openapi.json lists every path.' })
    if (match.kind === 'wrong-method') {
      const allow = match.allow.join(', ')
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: allow }, body: '' }
      throw new OjsError('method_not_allowed', `This path does not take ${method}.`, { details: { allow } })
    }
    checkVersion(request.headers['ojs-version'])
    const { route, params } = match
    const query = readQuery(search, route)
    if (hasBody && route.body === undefined) checkUnread(request)
    const text = route.body === undefined ? '' : (body ?? '')
    const handle = (json: unknown): Answer | Promise<Answer> => {
      const redaction = hidden !== null && mustRedact(route, caller, request) ? hidden : null
      const call: Call = {
        engine,
        door,
        caller,
        info,
        params,
        query,
        request,
        requestId,
        text,
        json,
        memory,
        redaction,
      }
      const given = guarded(route, call)
      return redaction === null ? given : redactedAnswer(engine.host, redaction, given)
    }
    const isHere = route.body !== undefined && body !== null
    const json = isHere ? bodyIn(engine.host, body, request.headers, route) : undefined
    return json instanceof Promise ? json.then(handle) : handle(json)
  }

  const guarded = (route: Served, call: Call): Answer | Promise<Answer> => {
    const { name, ended } = call.caller
    if (route.isNoted && name !== null) return noted(route, call, name)
    return ended === null || route.method !== 'GET' ? handled(route, call) : endingWith(ended, handled(route, call))
  }

  const handled = (route: Route, call: Call): Answer | Promise<Answer> => {
    if (call.request.headers['x-ojs-tenant'] === undefined || !isAboutAJob(route)) return route.handle(call)
    return refuseOthersJob(call).then(() => route.handle(call))
  }

  /** It is written down who called, with the change itself. */
  const noted = (route: Route, call: Call, token: string): Promise<Answer> => {
    const { request, requestId, params, caller } = call
    const note = {
      token,
      via: caller.via === 'session' ? ('session' as const) : ('bearer' as const),
      action: operationId(route.method, route.path),
      method: request.method,
      path: request.url.split('?', 1)[0] ?? '',
      object: params,
      requestId,
    }
    const work = async (noting: Engine): Promise<Answer> => handled(route, { ...call, engine: noting })
    return audit.noting(note, work, ({ status = 200 }) => status < 400)
  }

  return async (request) => {
    const mark = request.url.indexOf('?')
    const path = mark < 0 ? request.url : request.url.slice(0, mark)
    const search = mark < 0 ? '' : request.url.slice(mark + 1)
    const sent = request.headers['x-request-id']
    const requestId = sent !== undefined && REQUEST_ID.test(sent) ? sent : `req_${uuidV7(engine.now(), engine.random)}`
    try {
      const given = await answer(request, requestId, path, search)
      const response = finish(given, requestId, media)
      if (given.durable === undefined) return response
      request.prepare?.(response)
      await given.durable
      return response
    } catch (error) {
      if (!(error instanceof OjsError)) engine.log.error({ requestId, err: error }, 'a request broke')
      return finish(refusal(error, requestId, path.startsWith('/api/')), requestId, media)
    }
  }
}

/**
 * A webhook delivered to a job server must not change anything there: a subscription to events that its own deliveries cause
 * would never end.
 */
function refuseDelivery(request: HttpRequest): void {
  if (request.headers['x-ojs-delivery-id'] === undefined || methodOf(request) === 'GET') return
  throw new OjsError('permission_denied', 'A webhook delivery may not change anything on a job server.', {
    details: { header: 'X-OJS-Delivery-ID' },
    hint: 'Deliver to a program of yours, and let it decide what to enqueue or to trigger.',
  })
}

const methodOf = ({ method }: HttpRequest): string => (method === 'HEAD' ? 'GET' : method)

async function endingWith(ended: AbortSignal, answering: Answer | Promise<Answer>): Promise<Answer> {
  const answer = await answering
  return typeof answer.body === 'string' ? answer : { ...answer, body: whileAdmitted(answer.body, ended) }
}

/** Of a route that is open; what it brings is not looked at. */
const UNKNOWN_CALLER: Caller = { ...ANYONE, roles: [], bits: 0 }

function finish(
  { status = 200, headers, body, media, isBytes }: Answer,
  requestId: string,
  byDefault: string,
): HttpResponse {
  const common: Record<string, string> =
    status === 204
      ? { 'OJS-Version': '1.0', 'X-Request-Id': requestId }
      : { 'Content-Type': media ?? byDefault, 'OJS-Version': '1.0', 'X-Request-Id': requestId }
  const whole = Object.assign(common, headers)
  return isBytes === true ? { status, headers: whole, body, isBytes } : { status, headers: whole, body }
}

function checkVersion(version: string | undefined): void {
  if (version === undefined || /^1(\.|$)/.test(version.trim())) return
  throw new OjsError('unsupported', 'This server speaks version 1 of the Open Job Spec.', {
    details: { header: 'OJS-Version' },
  })
}
