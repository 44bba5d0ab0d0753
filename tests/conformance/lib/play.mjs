// Plays one case: names of its own, its steps in order, and order afterwards. The first step that fails ends the case,
// since the later ones build on it.
import { setTimeout as sleep } from 'node:timers/promises'
import { declaredWaitMs } from './cases.mjs'
import { checkAcross, checkAnswer } from './check.mjs'
import { MEDIA_TYPE, NoAnswer, reasonOf, send } from './http.mjs'
import { namesIn, renamer } from './names.mjs'
import { at, isObject, MISSING } from './path.mjs'
import { fill, Unresolved } from './template.mjs'

/** How often a step that may be tried again is. */
const LOOK_MS = 100
/** For whatever a case does beside its declared waits. */
const CASE_MS = 60_000

/** @param world `{base, headers, timeoutMs, slackMs, resetUrl, signal}` */
export async function play(one, world, suffix) {
  if (one.problem !== null)
    return failedWith({ step: 'the case file', where: one.file, wanted: 'a case', got: one.problem })
  const all = [...one.setup, ...one.steps, ...one.teardown]
  const found = namesIn(all)
  const own = renamer(found, suffix)
  const longestMs = CASE_MS + declaredWaitMs(one) + world.slackMs
  const late = AbortSignal.timeout(longestMs)
  const stage = {
    ...world,
    signal: AbortSignal.any([late, world.signal]),
    longestMs,
    /** When each step was sent, on the runner's own clock. */
    sent: new Map(),
    lateMs: 0,
    memory: { answers: {}, captured: {}, names: new Set(all.flatMap((step) => Object.keys(step.capture))) },
    left: { jobs: new Map(), workers: new Set(), paths: new Set() },
  }
  try {
    if (world.resetUrl) await reset(world)
    else if (found.fetchesDefault) await drainDefault(stage)
    const failures = (await playSteps(own(one.setup), stage)) ?? (await playSteps(own(one.steps), stage))
    await playSteps(own(one.teardown), stage)
    const lateMs = Math.round(stage.lateMs)
    return failures === null ? { status: 'passed', failures: [], lateMs } : { status: 'failed', failures, lateMs }
  } finally {
    if (!world.resetUrl && !world.signal.aborted) await tidy(stage)
  }
}

const failedWith = (failure) => ({ status: 'failed', failures: [failure], lateMs: 0 })

// ---- Steps ----

/** Null when all is well. Steps that name each other in `parallel_with` go together. */
async function playSteps(steps, stage) {
  for (let i = 0; i < steps.length;) {
    const together = [steps[i++]]
    const belongs = (step) => together.some((other) => step.parallelWith === other.id || other.parallelWith === step.id)
    while (i < steps.length && belongs(steps[i])) together.push(steps[i++])
    const failures = (await Promise.all(together.map((step) => playStep(step, stage)))).flat()
    if (failures.length > 0) return failures
  }
  return null
}

async function playStep(step, stage) {
  try {
    for (let n = 0; n < step.repeat; n += 1) {
      await pause(step.delayMs + step.waitMs, stage)
      const failures = step.kind === 'request' ? await ask(step, stage) : across(step, stage)
      if (failures.length > 0) return failures
    }
    return []
  } catch (error) {
    return [{ step: step.id, request: `${step.method} ${step.path}`, ...explained(error, stage) }]
  }
}

function explained(error, { signal, longestMs }) {
  if (signal.aborted) return { where: 'the case', wanted: `an end within ${longestMs} ms`, got: 'none' }
  if (error instanceof NoAnswer) return { where: 'the answer', wanted: 'one', got: error.message }
  if (error instanceof Unresolved) return { where: error.message, wanted: 'a value of an earlier step', got: 'nothing' }
  return { where: 'the case file', wanted: 'a step that can be played', got: reasonOf(error) }
}

/**
 * Asks once, unless the step says otherwise. `until_ms`: until the answer is as it should be, at most so long.
 * `throughout`: again and again, and every answer must be as it should be that came before so much time had passed since
 * a step was sent. What had not begun when that step was sent cannot have been due before; later states say nothing.
 */
async function ask(step, stage) {
  const call = fill({ path: step.path, headers: step.headers, body: step.body }, stage.memory)
  const began = performance.now()
  const patienceMs = step.untilMs === 0 ? 0 : step.untilMs + stage.slackMs
  const stillUntil = step.throughout && stage.sent.get(step.throughout.since) + step.throughout.ms
  for (let tries = 1; ; tries += 1) {
    stage.sent.set(step.id, performance.now())
    const answer = await request({ ...step, ...call }, stage)
    const now = performance.now()
    stage.lateMs = Math.max(stage.lateMs, answer.ms)
    if (stillUntil && now >= stillUntil) return []
    remember(step, call, answer, stage)
    const checks = fill(step.checks, stage.memory)
    const failures = checkAnswer(checks, answer, { insideJob: step.insideJob, slackMs: stage.slackMs })
    if (failures.length === 0 && !stillUntil) return []
    if (failures.length > 0 && (stillUntil || now - began >= patienceMs)) {
      const asked = `${step.method} ${call.path} → ${answer.status}${said(answer)}`
      const tried = tries === 1 ? '' : `, asked ${tries} times in ${Math.round(now - began)} ms`
      const early = stillUntil ? `, ${Math.round(stillUntil - now)} ms too early` : ''
      return failures.map((failure) => ({ step: step.id, request: asked + tried + early, ...failure }))
    }
    await pause(LOOK_MS, stage)
  }
}

/** A timer that comes late, and an answer that does, say that this machine has too much to do. */
async function pause(ms, stage) {
  if (ms === 0) return
  const began = performance.now()
  await sleep(ms, undefined, { signal: stage.signal })
  stage.lateMs = Math.max(stage.lateMs, performance.now() - began - ms)
}

function said({ status, json }) {
  const message = status >= 400 && isObject(json?.error) ? json.error.message : undefined
  return message === undefined ? '' : ` (${message})`
}

function across(step, { memory, slackMs }) {
  const failures = checkAcross(fill(step.checks, memory), memory.answers, { slackMs })
  return failures.map((failure) => ({ step: step.id, request: step.method, ...failure }))
}

function request({ method, path, headers, body, rawBody }, { base, headers: always, timeoutMs, signal }) {
  const text = rawBody ?? (body === undefined ? undefined : JSON.stringify(body))
  return send({ method, url: base + path, headers: { ...always, ...headers }, body: text, timeoutMs, signal })
}

function remember(step, call, answer, { memory, left }) {
  const body = answer.isJson ? answer.json : MISSING
  memory.answers[step.id] = { response: { status: answer.status, headers: answer.headers, body } }
  for (const [name, path] of Object.entries(step.capture)) {
    // The suites write $.id and $.job.id for the same thing.
    const [outside, inside] = [at(path, body), at(path, isObject(body) ? (body.job ?? MISSING) : MISSING)]
    const value = outside === MISSING ? inside : outside
    if (value !== MISSING) memory.captured[name] = value
  }
  if (answer.status < 300 && isObject(answer.json)) noteWhatIsLeft(step.method, call, answer.json, left)
}

// ---- Order ----

function noteWhatIsLeft(method, { path, body }, json, left) {
  // A list that was only looked at holds the jobs of others as well.
  const jobs = [json.job, ...(method === 'POST' && Array.isArray(json.jobs) ? json.jobs : [])]
  for (const job of jobs) if (typeof job?.id === 'string') left.jobs.set(job.id, job.state)
  if (method !== 'POST') return
  if (path.endsWith('/workers/register')) left.workers.add(body?.worker_id)
  if (path.endsWith('/cron') && body?.name) left.paths.add(`/ojs/v1/cron/${encodeURIComponent(body.name)}`)
  if (typeof json.workflow?.id === 'string') left.paths.add(`/ojs/v1/workflows/${json.workflow.id}`)
  if (typeof json.subscription?.id === 'string')
    left.paths.add(`/ojs/v1/webhooks/subscriptions/${json.subscription.id}`)
}

/** As well as it goes: what a case has left must not trouble the next run, but it is not what is tested. */
async function tidy({ left, ...world }) {
  const call = caller(world, 10_000)
  try {
    for (const path of left.paths) await call('DELETE', path)
    for (const [id, state] of left.jobs) {
      if (state === 'discarded') await call('DELETE', `/ojs/v1/dead-letter/${id}`)
      else if (state !== 'completed' && state !== 'cancelled') await call('DELETE', `/ojs/v1/jobs/${id}`)
    }
    for (const id of left.workers) await call('POST', '/ojs/v1/workers/deregister', { worker_id: id })
  } catch {
    // The server has gone, or has no such door.
  }
}

async function drainDefault(world) {
  const call = caller(world, 10_000)
  try {
    for (let round = 0; round < 100; round += 1) {
      const body = { queues: ['default'], count: 100, worker_id: 'conformance-drain' }
      const { json } = await call('POST', '/ojs/v1/workers/fetch', body)
      if (!Array.isArray(json?.jobs) || json.jobs.length === 0) return
      for (const { id } of json.jobs) await call('POST', '/ojs/v1/workers/ack', { job_id: id })
    }
  } catch {
    // The case will tell.
  }
}

function caller({ base, headers, timeoutMs }, ms) {
  const signal = AbortSignal.timeout(ms)
  return (method, path, body) => {
    const text = body === undefined ? undefined : JSON.stringify(body)
    return send({
      method,
      url: base + path,
      headers: { Accept: MEDIA_TYPE, ...headers },
      body: text,
      timeoutMs,
      signal,
    })
  }
}

async function reset({ resetUrl, headers, timeoutMs, signal }) {
  const { status } = await send({ method: 'POST', url: resetUrl, headers, timeoutMs, signal })
  if (status >= 300) throw new Error(`POST ${resetUrl} answered ${status}`)
}
