// Case files, read and brought into one form. The official suites are written in three dialects: `assertions` beside a
// method and a path, `expect` with keys such as "body.state", and a logical `action` (push, get, …) with a `request`.
//
// A file that cannot be read, or asks for something this runner does not know, is not skipped: it becomes a
// case with a `problem`, and such a case fails.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import { isObject, parsePath } from './path.mjs'

const METHODS = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])
const CHECKS = new Set([
  ...['status', 'status_in', 'status_one_of', 'headers', 'body', 'body_absent', 'body_contains', 'body_matches'],
  ...['timing_ms', 'elapsed', 'equality', 'exclusive_claim'],
])

/**
 * @typedef {{file: string, suite: string, id: string, name: string, level: string, tags: string[], spec: string,
 *   requires: string[],
 *   problem: string | null, setup: object[], steps: object[], teardown: object[]}} Case
 */

/**
 * Every *.json below the folder, in the order of their paths.
 * @returns {Case[]}
 */
export function readCases(folder) {
  const files = readdirSync(folder, { recursive: true })
    .map((file) => join(folder, file))
    .filter((file) => file.endsWith('.json') && statSync(file).isFile())
  return files.sort().map((file) => readCase(file, folder))
}

function readCase(path, folder) {
  const file = relative(folder, path).split(sep).join('/')
  const one = {
    file,
    suite: dirname(file) === '.' ? basename(folder) : dirname(file),
    id: file,
    name: file,
    tags: [],
    requires: [],
    spec: '',
  }
  Object.assign(one, { level: levelOf(path), setup: [], steps: [], teardown: [], problem: null })
  try {
    const text = JSON.parse(readFileSync(path, 'utf8'))
    if (!isObject(text)) throw new SyntaxError('a case is a JSON object')
    if (!Array.isArray(text.steps) || text.steps.length === 0) throw new SyntaxError('a case needs steps')
    one.id = text.test_id ?? file
    one.name = text.name ?? file
    one.tags = text.tags ?? []
    one.requires = text.requires ?? []
    one.spec = text.spec_ref ?? ''
    one.setup = readSteps(text.setup?.steps ?? [])
    one.steps = readSteps(text.steps)
    one.teardown = readSteps(text.teardown?.steps ?? [])
  } catch (error) {
    one.problem = error.message
  }
  return one
}

/** By the folder: many files outside the level folders carry a number that means nothing. */
function levelOf(path) {
  return /[/\\]level-(\d)[^/\\]*[/\\]/.exec(path)?.[1] ?? 'ext'
}

function readSteps(steps) {
  const ids = new Set()
  return steps.map((raw, i) => {
    const step = readStep(raw, `step ${i + 1}`)
    if (ids.has(step.id)) throw new SyntaxError(`two steps are called ${JSON.stringify(step.id)}`)
    ids.add(step.id)
    const { since } = step.throughout ?? { since: step.id }
    if (!ids.has(since)) throw new SyntaxError(`${step.id}: there is no step ${JSON.stringify(since)} before it`)
    return step
  })
}

function readStep(raw, name) {
  const wrong = (what) => new SyntaxError(`${raw?.id ?? name}: ${what}`)
  if (typeof raw?.action !== 'string') throw wrong('a step needs an action')
  const step = {
    id: raw.id ?? name,
    kind: { WAIT: 'wait', ASSERT: 'assert' }[raw.action.toUpperCase()] ?? 'request',
    method: raw.action.toUpperCase(),
    path: raw.path ?? '',
    headers: raw.headers ?? {},
    body: raw.body,
    rawBody: raw.raw_body,
    delayMs: raw.delay_ms ?? 0,
    waitMs: raw.duration_ms ?? 0,
    repeat: raw.repeat ?? 1,
    untilMs: raw.until_ms ?? 0,
    throughout: raw.throughout ?? null,
    parallelWith: raw.parallel_with ?? null,
    capture: { ...raw.capture, ...raw.captures, ...raw.store },
    checks: readChecks(raw, wrong),
    /** Paths of the logical dialect begin inside the job. */
    insideJob: false,
  }
  if (raw.request !== undefined) {
    const operation = OPERATIONS[raw.action.toLowerCase()]
    if (operation === undefined) throw wrong(`there is no operation ${raw.action}`)
    Object.assign(step, { insideJob: true }, operation(raw.request))
  }
  if (step.kind === 'request') {
    if (!METHODS.has(step.method)) throw wrong(`there is no action ${raw.action}`)
    if (step.throughout && step.method !== 'GET') throw wrong('throughout is for looking on: GET')
    if (!step.path.startsWith('/')) throw wrong('a request needs a path that begins with /')
  }
  return step
}

function readChecks(raw, wrong) {
  const checks = { ...raw.assertions }
  for (const [key, value] of Object.entries(raw.expect ?? {})) {
    if (key === 'body' || key.startsWith('body.')) {
      const wanted = key === 'body' ? value : { [key.slice(5)]: value }
      checks.body ??= {}
      for (const [path, matcher] of Object.entries(wanted)) checks.body[`$.${path}`] = matcher
    } else checks[key] = value
  }
  for (const key of Object.keys(checks)) {
    if (key.endsWith('_comment')) delete checks[key]
    else if (!CHECKS.has(key)) throw wrong(`there is no assertion ${key}`)
  }
  // Found out here rather than in the middle of a run.
  for (const path of Object.keys(checks.body ?? {})) if (path !== '$or' && path !== '$empty') parsePath(path)
  return checks
}

const byId = (method) => (request) => ({ method, path: `/ojs/v1/jobs/${request.id}` })
const report = (verb) => (request) => {
  const { id, ...rest } = request
  return { method: 'POST', path: `/ojs/v1/workers/${verb}`, body: { job_id: id, ...rest } }
}

const OPERATIONS = {
  push: ({ queue, ...job }) => {
    const options = queue === undefined ? job.options : { ...job.options, queue }
    return { method: 'POST', path: '/ojs/v1/jobs', body: { ...job, options } }
  },
  get: byId('GET'),
  info: byId('GET'),
  cancel: byId('DELETE'),
  fetch: (request) => ({ method: 'POST', path: '/ojs/v1/workers/fetch', body: request }),
  ack: report('ack'),
  nack: report('nack'),
}

/** How long the case says it will wait, at most. */
export function declaredWaitMs(one) {
  const all = [...one.setup, ...one.steps, ...one.teardown]
  return all.reduce(
    (sum, step) => sum + (step.delayMs + step.waitMs) * step.repeat + step.untilMs + (step.throughout?.ms ?? 0),
    0,
  )
}
