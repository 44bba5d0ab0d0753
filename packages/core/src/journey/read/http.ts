/** HTTP calls as they are written, and the policies by which they are repeated. */
import { millis, type Millis } from '../../time/clock.ts'
import { SHAPE, type Field, type Mapping } from '../../diagnostics.ts'
import { canBeSent, placeholdersOf } from '../interpolation.ts'
import { readAuth } from '../auth.ts'
import { headerProblem, urlProblem } from '../call.ts'
import { RETRY_CONDITIONS, type HttpCall, type Resilience, type StateId } from '../definition.ts'
import { operationOf } from './operations.ts'
import { isMapped, needMapper, readTarget, readVariable, warnIfNeverReached, type Reading } from './reading.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
/** As long as a timer can be. */
const MAX_CALL_MS = 2_147_483_647
const KEYS =
  'kind mode method url operationRef params headers body accept timeoutMs resultVar resiliencePolicyRef errorMapping auth'.split(
    ' ',
  )

export function readHttpCall(reading: Reading, task: Mapping, next: StateId): HttpCall {
  task.at.members(KEYS, { notHere: ['cookies'] })
  const mode = task.get('mode')?.oneOf(['requestResponse', 'notify'], 'HTTP-1') ?? 'requestResponse'
  const params = task.get('params')?.members(['path', 'query', 'headers'], { code: 'HTTP-1' }) ?? null
  const given = {
    path: readTexts(params?.get('path') ?? null),
    query: readTexts(params?.get('query') ?? null),
    headers: { ...readHeaders(params?.get('headers') ?? null), ...readHeaders(task.get('headers')) },
  }
  const bound = readBinding(reading, task, params, given)
  const accept = task.get('accept')?.text('HTTP-1') ?? null
  const resultVar = readVariable(task.get('resultVar'))
  if (mode === 'notify') {
    for (const key of ['resultVar', 'errorMapping'])
      task.get(key)?.errorAtKey('HTTP-1', `${key} does not go with mode notify: there is no result.`)
  }
  const auth = readAuth(reading.authPolicies, task)
  if (auth !== null && hasHeader(given.headers, auth.header))
    task.get('auth')?.errorAtKey('AUTH-1', `The header ${auth.header} is also among headers; give one of the two.`)
  return {
    type: 'httpCall',
    method: bound?.method ?? '',
    url: bound?.url ?? '',
    params: given.query,
    headers: accept === null || hasHeader(given.headers, 'accept') ? given.headers : { ...given.headers, accept },
    body: readBody(reading, task, bound?.method ?? ''),
    auth,
    timeoutMs: readTimeout(reading, task.get('timeoutMs')),
    mode,
    resultVar,
    resilience: readPolicyOf(reading, task, mode),
    errorMapping: readErrorMapping(reading, task.get('errorMapping')),
    next,
  }
}

interface Given {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

/** Exactly one of an address and an operation of an OpenAPI document. */
function readBinding(
  reading: Reading,
  task: Mapping,
  params: Mapping | null,
  given: Given,
): { readonly method: string; readonly url: string } | null {
  const ref = task.get('operationRef')
  if (ref !== null) {
    for (const key of ['method', 'url'])
      task.get(key)?.errorAtKey('HTTP-1', `Give operationRef, or method and url; not both.`)
    return task.has('method') || task.has('url') ? null : operationOf(reading, ref, given, task.has('body'))
  }
  if (!task.has('method') && !task.has('url')) {
    task.at.error('HTTP-1', 'method and url are missing (or operationRef).')
    return null
  }
  params
    ?.get('path')
    ?.errorAtKey('HTTP-1', 'params.path goes with operationRef; write the values into the url: ${context.name}.')
  const method = task.need('method', 'HTTP-1')?.oneOf(METHODS, 'HTTP-1') ?? ''
  return { method, url: readUrl(task.need('url', 'HTTP-1')) }
}

function readUrl(field: Field | null): string {
  const url = field?.text('HTTP-1', { expected: 'an absolute address, http:// or https://', most: 4_096 }) ?? ''
  const problem = url === '' ? null : urlProblem(url)
  if (problem !== null) field?.error('HTTP-1', `url ${problem}.`)
  return url
}

/** Told when the definition is deployed: a slip must not be found by the first run that comes there. */
export function checkPlaceholders(field: Field, text: string, code: string): void {
  for (const error of placeholdersOf(text).errors) field.error(code, `${field.name}: ${error}.`)
}

/** Why a run fails, with placeholders. */
export function readReason(field: Field | null, code: string): string {
  const text = field?.text(code) ?? ''
  if (field !== null) checkPlaceholders(field, text, code)
  return text
}

function readTexts(field: Field | null): Record<string, string> {
  const read: [string, string][] = []
  for (const [name, entry] of field?.entries('HTTP-1') ?? []) {
    const text = typeof entry.value === 'string' ? entry.value : entry.refuse('HTTP-1', 'a text; put it in quotes')
    if (text === null) continue
    checkPlaceholders(entry, text, 'HTTP-1')
    read.push([name, text])
  }
  return Object.fromEntries(read)
}

export function readHeaders(field: Field | null): Record<string, string> {
  const headers = readTexts(field)
  for (const [name, text] of Object.entries(headers)) {
    const entry = field?.mapping()?.field(name)
    const problem = headerProblem(name)
    if (problem !== null) entry?.errorAtKey('HTTP-1', `${JSON.stringify(name)} ${problem}.`)
    if (!canBeSent(text)) entry?.refuse('HTTP-1', 'a text without characters that no header can carry')
  }
  return headers
}

const hasHeader = (headers: Readonly<Record<string, string>>, name: string): boolean =>
  Object.keys(headers).some((key) => key.toLowerCase() === name)

function readBody(reading: Reading, task: Mapping, method: string): HttpCall['body'] {
  const body = task.get('body')
  if (body === null) return null
  if (method === 'GET' || method === 'HEAD') {
    body.errorAtKey('HTTP-1', `A ${method} has no body.`)
    return null
  }
  if (isMapped(body.value)) {
    const mapping = body.mapping()
    return mapping === null ? null : { mapper: needMapper(reading, mapping) }
  }
  checkLeaves(body)
  return { literal: JSON.stringify(body.value) }
}

function checkLeaves(field: Field): void {
  if (typeof field.value === 'string') checkPlaceholders(field, field.value, 'HTTP-1')
  else if (Array.isArray(field.value)) field.list().forEach(checkLeaves)
  else if (field.value !== null && typeof field.value === 'object')
    for (const [, inner] of field.entries()) checkLeaves(inner)
}

export function readTimeout(reading: Reading, field: Field | null): Millis | null {
  const ms = field?.whole('HTTP-1', 1, MAX_CALL_MS) ?? null
  if (field === null || ms === null) return null
  warnIfNeverReached(reading, field, ms)
  return millis(ms)
}

function readErrorMapping(reading: Reading, field: Field | null): HttpCall['errorMapping'] {
  const mapping = field?.members(['when', 'mapper', 'mapperRef', 'target', 'resultVar']) ?? null
  if (mapping === null) return null
  mapping.get('when')?.oneOf(['nonOk'])
  return { mapper: needMapper(reading, mapping), target: readTarget(mapping, ['context', 'var']) }
}

// ---- Policies ----

function readPolicyOf(reading: Reading, task: Mapping, mode: HttpCall['mode']): Resilience | null {
  const ref = task.get('resiliencePolicyRef')
  const id = ref === null ? reading.policyByDefault : readPolicyName(reading.policies, ref)
  // A call whose outcome is not used is made once.
  return id === null || mode === 'notify' ? null : (reading.policies.get(id) ?? null)
}

export function readPolicyName(policies: Reading['policies'], ref: Field): string | null {
  const id = ref.text('HTTP-2')
  if (id === null || policies.has(id)) return id
  ref.error('HTTP-2', `There is no policy ${JSON.stringify(id)} in spec.policies.httpResilience.definitions.`)
  return null
}

export function readPolicy(field: Field): Resilience | null {
  const policy = field.members(['maxAttempts', 'retryOn', 'backoff'], { notHere: ['circuitBreaker', 'bulkhead'] })
  if (policy === null) return null
  const backoff = policy.get('backoff')?.members(['kind', 'baseDelayMs', 'maxDelayMs', 'jitter']) ?? null
  const length = (key: string, byDefault: number): Millis =>
    millis(backoff?.get(key)?.whole(SHAPE, 0, MAX_CALL_MS) ?? byDefault)
  const retryOn = policy.get('retryOn')
  const base = length('baseDelayMs', 100)
  return {
    maxAttempts: policy.need('maxAttempts')?.whole(SHAPE, 1, 100) ?? 1,
    retryOn:
      retryOn === null
        ? ['NETWORK_ERROR', 'HTTP_5XX']
        : retryOn.list().flatMap((entry) => entry.oneOf(RETRY_CONDITIONS) ?? []),
    backoff: {
      kind: backoff?.get('kind')?.oneOf(['fixed', 'exponential']) ?? 'exponential',
      baseDelayMs: base,
      maxDelayMs: millis(Math.max(base, length('maxDelayMs', 2_000))),
      jitter: backoff?.get('jitter')?.oneOf(['none', 'full']) ?? 'full',
    },
  }
}
