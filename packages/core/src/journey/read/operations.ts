/**
 * Calls by name: `operationRef: users.getUser` means the operation `getUser` of the OpenAPI document that the definition
 * carries under `spec.apis.users`. It is looked up when the definition is read, so that what runs is a plain call: a
 * method and an address (the first server, and the path with its parameters put in).
 */
import { isMapping, type Field } from '../../diagnostics.ts'
import type { Reading } from './reading.ts'
import { urlProblem } from '../call.ts'
import type { Fields } from '../../wire/shape.ts'

/** Null: it is there, and could not be read. */
export type OpenApis = ReadonlyMap<string, Fields | null>

const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options']

/** A document by the name of its file, or why there is none. */
export type FindOpenApi = (ref: string) => { readonly document: unknown } | { readonly problem: string }

const NO_FILES: FindOpenApi = () => ({
  problem: 'openApiRef names a file, and there are none here; put the document itself under openApi.',
})

export function readApis(field: Field | null, find: FindOpenApi = NO_FILES): OpenApis {
  const apis = new Map<string, Fields | null>()
  for (const [name, entry] of field?.entries() ?? []) {
    const api = entry.members(['openApi', 'openApiRef'])
    const ref = api?.get('openApiRef') ?? null
    if (ref === null) {
      const document = api?.need('openApi', 'HTTP-1') ?? null
      apis.set(name, document?.mapping('HTTP-1')?.value ?? null)
      continue
    }
    const path = ref.text('HTTP-1')
    const found = path === null ? { document: null } : find(path)
    if (api?.has('openApi') === true) ref.errorAtKey('HTTP-1', 'Give openApi or openApiRef, not both.')
    else if ('problem' in found) ref.error('HTTP-1', found.problem)
    else if (!isMapping(found.document) && path !== null) ref.error('HTTP-1', `${path} is not an OpenAPI document.`)
    apis.set(name, 'document' in found && isMapping(found.document) ? found.document : null)
  }
  return apis
}

interface Operation {
  readonly method: string
  readonly path: string
  readonly operation: Fields
  readonly item: Fields
}

interface Given {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

export function operationOf(
  { apis }: Pick<Reading, 'apis'>,
  ref: Field,
  given: Given,
  hasBody: boolean,
): { readonly method: string; readonly url: string } | null {
  const [, name = '', id = ''] = /^([^.]+)\.(.+)$/.exec(typeof ref.value === 'string' ? ref.value : '') ?? []
  if (id === '') return ref.refuse('HTTP-1', 'the name of an API and an operation: users.getUser')
  const document = apis.get(name)
  if (document === undefined) ref.error('HTTP-1', `There is no API ${JSON.stringify(name)} in spec.apis.`)
  if (document === undefined || document === null) return null
  const found = find(document, id)
  if (found === null) {
    ref.error('HTTP-1', `The API ${name} has no operation ${JSON.stringify(id)}.`)
    return null
  }
  for (const missing of missingOf(document, found, given)) ref.error('HTTP-1', `${id} needs ${missing}.`)
  const body = resolved(document, found.operation['requestBody'])
  if (body?.['required'] === true && !hasBody) ref.error('HTTP-1', `${id} needs a body.`)
  const url = serverOf(document, found) + filled(found.path, given.path)
  const problem = urlProblem(url)
  if (problem !== null) ref.error('HTTP-1', `The address of ${id} ${problem}.`)
  return { method: found.method.toUpperCase(), url }
}

function find(document: Fields, id: string): Operation | null {
  const paths = isMapping(document['paths']) ? document['paths'] : {}
  for (const [path, item] of Object.entries(paths)) {
    if (!isMapping(item)) continue
    for (const method of METHODS) {
      const operation = Object.hasOwn(item, method) ? item[method] : undefined
      if (isMapping(operation) && operation['operationId'] === id) return { method, path, operation, item }
    }
  }
  return null
}

/** Only into the document itself. */
function resolved(document: Fields, value: unknown): Fields | null {
  if (!isMapping(value)) return null
  const ref = value['$ref']
  if (typeof ref !== 'string') return value
  let found: unknown = ref.startsWith('#/') ? document : null
  for (const part of ref.slice(2).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    found = isMapping(found) && Object.hasOwn(found, key) ? found[key] : null
  }
  return isMapping(found) && !Object.hasOwn(found, '$ref') ? found : null
}

function missingOf(document: Fields, { operation, item, path }: Operation, given: Given): string[] {
  const missing = new Set<string>()
  const headers = new Set(Object.keys(given.headers).map((name) => name.toLowerCase()))
  for (const [, name = ''] of path.matchAll(/\{([^}]+)\}/g))
    if (!Object.hasOwn(given.path, name)) missing.add(`params.path.${name}`)
  for (const list of [item['parameters'], operation['parameters']]) {
    for (const entry of Array.isArray(list) ? (list as unknown[]) : []) {
      const parameter = resolved(document, entry)
      const name = parameter?.['name']
      if (parameter?.['required'] !== true || typeof name !== 'string') continue
      if (parameter['in'] === 'query' && !Object.hasOwn(given.query, name)) missing.add(`params.query.${name}`)
      if (parameter['in'] === 'header' && !headers.has(name.toLowerCase())) missing.add(`params.headers.${name}`)
    }
  }
  return [...missing]
}

/** The first server, of the operation if it has its own; variables take their defaults. */
function serverOf(document: Fields, { operation, item }: Operation): string {
  const servers = [operation, item, document]
    .map((of) => of['servers'])
    .find((list) => Array.isArray(list)) as unknown[]
  const server: unknown = servers?.[0]
  if (!isMapping(server) || typeof server['url'] !== 'string') return ''
  const variables = isMapping(server['variables']) ? server['variables'] : {}
  const url = server['url'].replaceAll(/\{([^}]+)\}/g, (whole, name: string) => {
    const variable = Object.hasOwn(variables, name) ? variables[name] : null
    return isMapping(variable) && typeof variable['default'] === 'string' ? variable['default'] : whole
  })
  return url.replace(/\/$/, '')
}

/** Placeholders are encoded with their values; the rest is encoded here. */
function filled(path: string, given: Given['path']): string {
  return path.replaceAll(/\{([^}]+)\}/g, (whole, name: string) =>
    Object.hasOwn(given, name)
      ? (given[name] ?? '').replaceAll(/\$\{[^}]*\}|[^$]+|\$/g, (part) =>
          part.startsWith('${') ? part : encodeURIComponent(part.replaceAll(/\p{Surrogate}/gu, '\uFFFD')),
        )
      : whole,
  )
}
