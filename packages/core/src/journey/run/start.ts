/**
 * What a run takes over from the request that starts it, and a step from the request that submits to it: members of the
 * context, tags and attributes, and headers that are passed on to the calls made while the request is served.
 */
import { OjsError } from '../../errors.ts'
import type { Definition, Inbound } from '../definition.ts'
import type { Data } from './run.ts'
import { isData, memberOf, withAttributes } from './values.ts'
import { RunFault } from '../faults.ts'

/** The parts of a request that bindings speak of. Names of headers are in lower case. */
export interface InboundRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
}

const MAX_TAGS = 16
const MAX_TAG_LENGTH = 40

export const NOTHING_INBOUND: Inbound = { headersToContext: {}, queryToContext: {}, headersPassthrough: [] }

/** Members of the context that come from headers and query. What is not there is not made up. */
export function boundContext({ headersToContext, queryToContext }: Inbound, { headers, query }: InboundRequest): Data {
  const found: [string, string][] = []
  for (const [header, member] of Object.entries(headersToContext)) {
    const value = memberOf(headers, header.toLowerCase())
    if (typeof value === 'string') found.push([member, value])
  }
  for (const [parameter, member] of Object.entries(queryToContext)) {
    const value = memberOf(query, parameter)
    if (typeof value === 'string') found.push([member, value])
  }
  return Object.fromEntries(found)
}

export function passedOn({ headersPassthrough }: Inbound, { headers }: InboundRequest): Record<string, string> {
  const found: [string, string][] = []
  for (const { from, to } of headersPassthrough) {
    const value = memberOf(headers, from.toLowerCase())
    if (typeof value === 'string') found.push([to.toLowerCase(), value])
  }
  return Object.fromEntries(found)
}

export interface RunMetadata {
  readonly tags: readonly string[]
  readonly attributes: Readonly<Record<string, string>>
}

/** Too many, or too long: the start is refused, nothing is cut off. */
export function metadataOf({ tags, metadata }: Definition, body: Data, { headers }: InboundRequest): RunMetadata {
  const baggage = baggageOf(headers['baggage'])
  const all = new Set(tags)
  const add = (value: unknown): void => {
    if (typeof value === 'string' && value !== '') all.add(value)
  }
  for (const path of metadata.tags.fromPayload) add(valueAt(body, path))
  for (const header of metadata.tags.fromHeaders) add(memberOf(headers, header.toLowerCase()))
  for (const key of metadata.tags.fromBaggage) add(baggage.get(key))
  if (all.size > MAX_TAGS) throw refused(`a run has at most ${String(MAX_TAGS)} tags`)
  for (const tag of all)
    if (tag.length > MAX_TAG_LENGTH) throw refused(`a tag has at most ${String(MAX_TAG_LENGTH)} characters`)
  return { tags: [...all], attributes: attributesOf(metadata.attributes, body, headers, baggage) }
}

function attributesOf(
  { fromPayload, fromHeaders, fromBaggage }: Definition['metadata']['attributes'],
  body: Data,
  headers: Readonly<Record<string, string>>,
  baggage: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  const found = new Map<string, unknown>()
  const set = (name: string, value: unknown): void => {
    if (value !== undefined && value !== null && !found.has(name)) found.set(name, value)
  }
  for (const [name, path] of Object.entries(fromPayload)) set(name, valueAt(body, path))
  for (const [name, header] of Object.entries(fromHeaders)) set(name, memberOf(headers, header.toLowerCase()))
  for (const [name, key] of Object.entries(fromBaggage)) set(name, baggage.get(key))
  try {
    return withAttributes({}, Object.fromEntries(found))
  } catch (error) {
    if (error instanceof RunFault) throw refused(error.message)
    throw error
  }
}

const refused = (why: string): OjsError =>
  new OjsError('validation_error', `The run cannot be given what its definition binds: ${why}.`)

function valueAt(body: Data, path: string): unknown {
  let value: unknown = body
  for (const name of path.split('.')) value = isData(value) ? memberOf(value, name) : undefined
  return value
}

/** W3C Baggage: `key=value;property, key=value`. */
function baggageOf(header: string | undefined): ReadonlyMap<string, string> {
  const entries = new Map<string, string>()
  for (const part of (header ?? '').split(',')) {
    const [pair = ''] = part.split(';')
    const at = pair.indexOf('=')
    if (at <= 0) continue
    const text = pair.slice(at + 1).trim()
    try {
      entries.set(pair.slice(0, at).trim(), decodeURIComponent(text))
    } catch {
      entries.set(pair.slice(0, at).trim(), text)
    }
  }
  return entries
}
