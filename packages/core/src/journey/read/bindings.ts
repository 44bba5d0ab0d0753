/** How a definition is bound to the outside: its route, what is taken over from requests, and what is answered. */
import { SHAPE, type Field, type Mapping } from '../../diagnostics.ts'
import { headerProblem } from '../call.ts'
import {
  API_STATUSES,
  BODILESS_STATUS,
  isApiStatus,
  type ApiResponses,
  type Definition,
  type Expression,
  type Inbound,
  type MetadataBindings,
} from '../definition.ts'
import { readExpression, readPredicate, readVariable, type Reading } from './reading.ts'

export const NO_INBOUND: Inbound = { headersToContext: {}, queryToContext: {}, headersPassthrough: [] }
const ROUTE = /^\/apis(\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$/

type Bindings = Pick<Definition, 'starting' | 'submitting' | 'route' | 'apiResponses'>

export function readBindings(reading: Reading, field: Field | null, name: string): Bindings {
  const notHere = ['websocket', 'grpc', 'queue', 'cli', 'function']
  const http = field?.members(['http'], { notHere })?.get('http') ?? null
  const binding = http?.members(['route', 'start', 'steps', 'apiResponses']) ?? null
  return {
    starting: readInbound(binding?.get('start') ?? null),
    submitting: readSteps(reading, binding?.get('steps') ?? null),
    route: readRoute(reading, binding?.get('route') ?? null, name),
    apiResponses: readApiResponses(reading, binding?.get('apiResponses') ?? null),
  }
}

function readRoute({ kind }: Reading, field: Field | null, name: string): Definition['route'] {
  if (field === null) return null
  if (kind !== 'Api') field.errorAtKey('ROUTE-1', 'route goes with kind Api only.')
  const route = field.members(['path', 'method'])
  route?.get('method')?.oneOf(['POST'], 'ROUTE-1')
  const path = route?.get('path')?.text('ROUTE-1', {
    pattern: ROUTE,
    most: 512,
    expected: 'a path below /apis/, such as /apis/price-quote',
  })
  return { path: path ?? `/apis/${name}`, method: 'POST' }
}

function readSteps({ graphs }: Reading, field: Field | null): Record<string, Inbound> {
  const steps = new Set<string>()
  for (const { states } of graphs)
    for (const [id, { type }] of states) if (type === 'wait' || type === 'webhook') steps.add(id)
  return Object.fromEntries(
    (field?.entries() ?? []).map(([id, entry]) => {
      if (!steps.has(id)) entry.errorAtKey('GRAPH-1', `There is no wait or webhook ${JSON.stringify(id)}.`)
      return [id, readInbound(entry)]
    }),
  )
}

function readInbound(field: Field | null): Inbound {
  const inbound = field?.members(['headersToContext', 'headersPassthrough', 'queryToContext']) ?? null
  if (inbound === null) return NO_INBOUND
  const toContext = (key: string, nameOf: (name: string) => string): Record<string, string> =>
    Object.fromEntries(
      (inbound.get(key)?.entries() ?? []).map(([name, entry]) => [nameOf(name), readVariable(entry) ?? '']),
    )
  return {
    headersToContext: toContext('headersToContext', (name) => name.toLowerCase()),
    queryToContext: toContext('queryToContext', (name) => name),
    headersPassthrough: (inbound.get('headersPassthrough')?.list() ?? []).map((entry) => {
      const pair = entry.members(['from', 'to'])
      return { from: headerName(pair?.need('from') ?? null), to: sentHeader(pair?.need('to') ?? null) }
    }),
  }
}

const HEADER = { pattern: /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, expected: 'the name of a header' }
const headerName = (field: Field | null): string => field?.text(SHAPE, HEADER)?.toLowerCase() ?? ''

function sentHeader(field: Field | null): string {
  const name = headerName(field)
  const problem = name === '' ? null : headerProblem(name)
  if (problem !== null) field?.error(SHAPE, `The header ${JSON.stringify(name)} ${problem}.`)
  return name
}

// ---- What an Api answers ----

function readApiResponses(reading: Reading, field: Field | null): ApiResponses | null {
  if (field === null) return null
  if (reading.kind !== 'Api') field.errorAtKey('KIND-2', 'apiResponses goes with kind Api only.')
  const responses = field.members(['rules', 'default'])
  const byDefault = responses?.get('default')?.members(['SUCCEEDED', 'FAILED']) ?? null
  const failed = byDefault?.get('FAILED') ?? null
  return {
    rules: (responses?.get('rules')?.list() ?? []).map((entry) => readRule(reading, entry)),
    succeeded: readStatus(byDefault?.get('SUCCEEDED') ?? null, 'SUCCEEDED') ?? 200,
    failed: failed?.value === 'fromProblemStatus' ? null : readStatus(failed, 'FAILED'),
  }
}

function readRule(reading: Reading, field: Field): ApiResponses['rules'][number] {
  const rule = field.members(['when', 'status', 'statusExpr'])
  const when = rule?.need('when')?.members(['phase', 'errorType', 'predicate']) ?? null
  const phase = when?.need('phase')?.oneOf(['SUCCEEDED', 'FAILED'], 'KIND-2') ?? 'FAILED'
  const errorType = when?.get('errorType') ?? null
  if (phase !== 'FAILED') errorType?.errorAtKey('KIND-2', 'errorType goes with phase FAILED only.')
  return {
    phase,
    errorType: errorType?.text('KIND-2') ?? null,
    predicate: readPredicate(reading, when),
    status: rule === null ? 200 : readStatusOf(reading, rule, phase),
  }
}

function readStatusOf(reading: Reading, rule: Mapping, phase: ApiPhase): number | Expression {
  const expression = rule.get('statusExpr')
  if (rule.has('status') === rule.has('statusExpr'))
    rule.at.error('KIND-2', 'A rule must have exactly one of status and statusExpr.')
  if (expression !== null) return readExpression(reading, expression)
  return readStatus(rule.get('status'), phase) ?? 200
}

type ApiPhase = keyof typeof API_STATUSES

function readStatus(field: Field | null, phase: ApiPhase): number | null {
  if (field === null || isApiStatus(phase, field.value)) return (field?.value ?? null) as number | null
  const { least, most } = API_STATUSES[phase]
  const why =
    phase === 'FAILED'
      ? ', because the run has failed'
      : `, but not ${String(BODILESS_STATUS)}, which must have no body`
  return field.refuse('KIND-2', `a status from ${String(least)} to ${String(most)}${why}`)
}

// ---- Tags and attributes ----

const SOURCES = { fromPayload: 'path', fromHeaders: 'header', fromBaggage: 'key' } as const

export function readMetadataBindings(field: Field | null): MetadataBindings {
  const bindings = field?.members(['bindings'])?.get('bindings')?.members(['tags', 'attributes']) ?? null
  const tags = bindings?.get('tags')?.members(Object.keys(SOURCES)) ?? null
  const attributes = bindings?.get('attributes')?.members(Object.keys(SOURCES)) ?? null
  const source = (from: keyof typeof SOURCES, entry: Field): string => {
    const text = entry.members([SOURCES[from]])?.need(SOURCES[from])?.text(SHAPE, { most: 512 }) ?? ''
    return from === 'fromHeaders' ? text.toLowerCase() : text
  }
  const listed = (from: keyof typeof SOURCES): string[] =>
    (tags?.get(from)?.list() ?? []).map((entry) => source(from, entry))
  const named = (from: keyof typeof SOURCES): Record<string, string> =>
    Object.fromEntries((attributes?.get(from)?.entries() ?? []).map(([name, entry]) => [name, source(from, entry)]))
  return {
    tags: {
      fromPayload: listed('fromPayload'),
      fromHeaders: listed('fromHeaders'),
      fromBaggage: listed('fromBaggage'),
    },
    attributes: {
      fromPayload: named('fromPayload'),
      fromHeaders: named('fromHeaders'),
      fromBaggage: named('fromBaggage'),
    },
  }
}
