// Names of its own for every run of a case, so that cases do not meet each other, nor what an earlier run has left:
// queues, workers, crons, tenants, pools, schemas, limiters, and job ids that the case chose itself.
//
// Names are found where requests put them, then replaced wherever they stand alone: in paths, bodies and expectations.
// The queue `default` keeps its name, for it is what a server takes when a request names none.
import { randomBytes } from 'node:crypto'
import { isObject } from './path.mjs'

const PLACES = new Set(['queues', 'workers', 'cron', 'tenants', 'pools', 'schemas', 'rate-limits', 'job-types'])
const VERBS = new Set([
  'fetch',
  'ack',
  'nack',
  'fail',
  'heartbeat',
  'beat',
  'register',
  'deregister',
  'progress',
  'exchange',
])
const NAME = /^[A-Za-z0-9][\w.-]*$/
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** What the requests of a case name. */
export function namesIn(steps) {
  const found = { names: new Set(), ids: new Set(), usesDefault: false, fetchesDefault: false }
  const add = (name) => {
    if (name === 'default') found.usesDefault = true
    else if (typeof name === 'string' && NAME.test(name)) found.names.add(name)
  }
  for (const { path, body, headers } of steps) {
    const [route, query = ''] = path.split('?')
    const segments = route.split('/')
    segments.forEach((segment, i) => {
      if (PLACES.has(segments[i - 1]) && !VERBS.has(segment)) add(segment)
      if (UUID_V7.test(segment)) found.ids.add(segment)
    })
    const params = new URLSearchParams(query)
    for (const key of ['queue', 'queues']) for (const name of params.get(key)?.split(',') ?? []) add(name)
    for (const [name, value] of Object.entries(headers)) if (/^x-ojs-tenant$/i.test(name)) add(value)
    if (route.endsWith('/cron')) add(body?.name)
    visit(body, (value, key) => inBody(value, key, found, add))
  }
  return found
}

function inBody(value, key, found, add) {
  if (key === 'queue' || key === 'worker_id') add(value)
  if (key === 'queues' && Array.isArray(value)) {
    value.forEach(add)
    if (value.includes('default')) found.fetchesDefault = true
  }
  if (key === 'rate_limit') add(value?.key)
  if (key === 'id' && UUID_V7.test(value)) found.ids.add(value)
  const isJob = isObject(value) && Array.isArray(value.args)
  if (isJob && value.queue === undefined && value.options?.queue === undefined) found.usesDefault = true
}

function visit(value, look, key = '') {
  look(value, key)
  if (Array.isArray(value)) for (const item of value) visit(item, look)
  else if (isObject(value)) for (const [name, member] of Object.entries(value)) visit(member, look, name)
}

/** Gives steps their private names. */
export function renamer({ names, ids }, suffix) {
  const fresh = new Map()
  for (const name of names) fresh.set(name, `${name}-${suffix}`)
  for (const id of ids) fresh.set(id, uuidV7())
  if (fresh.size === 0) return (steps) => steps
  const longestFirst = [...fresh.keys()].sort((a, b) => b.length - a.length)
  const alone = new RegExp(`(?<![\\w.-])(?:${longestFirst.map(escaped).join('|')})(?![\\w.-])`, 'g')
  const renamed = (text) => text.replace(alone, (name) => fresh.get(name))
  const through = (value) => {
    if (typeof value === 'string') return renamed(value)
    if (Array.isArray(value)) return value.map(through)
    if (!isObject(value)) return value
    // A key is a name only where it is a path.
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k.startsWith('$') ? renamed(k) : k, through(v)]))
  }
  return (steps) =>
    steps.map((step) => {
      const { path, headers, body, checks } = step
      return { ...step, path: renamed(path), headers: through(headers), body: through(body), checks: through(checks) }
    })
}

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

function uuidV7() {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(Date.now(), 0, 6)
  bytes[6] = 0x70 | (bytes[6] & 0x0f)
  bytes[8] = 0x80 | (bytes[8] & 0x3f)
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
