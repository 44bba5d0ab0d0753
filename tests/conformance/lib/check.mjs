// What a step asserts, held against the answer. Every check answers a list of {where, wanted, got}; none is good.
import { isDeepStrictEqual } from 'node:util'
import { isAbout, match, show } from './match.mjs'
import { at, isObject, MISSING } from './path.mjs'

/** @param slackMs how much more time the tester grants to every upper bound */
export function checkAnswer(checks, answer, { insideJob = false, slackMs = 0 } = {}) {
  const found = []
  const test = (where, matcher, value) => {
    const different = match(matcher, value)
    if (different) found.push({ where: where + different.below, wanted: different.wanted, got: show(different.got) })
  }
  for (const status of [checks.status, checks.status_in, checks.status_one_of]) {
    if (status !== undefined) test('status', Array.isArray(status) ? { $in: status } : status, answer.status)
  }
  for (const [name, matcher] of Object.entries(checks.headers ?? {})) {
    const value = answer.headers[name.toLowerCase()] ?? MISSING
    test(`header ${name}`, typeof matcher === 'string' ? { $eq: matcher } : matcher, value)
  }
  if (checks.body) found.push(...checkBody(checks.body, answer, insideJob))
  for (const path of checks.body_absent ?? []) test(path, 'absent', valueAt(path, answer, insideJob))
  for (const part of checks.body_contains ?? []) {
    if (!answer.text.includes(part)) found.push(inText(`a text with ${show(part)} in it`, answer))
  }
  for (const pattern of checks.body_matches ?? []) {
    if (!new RegExp(pattern, 'm').test(answer.text)) found.push(inText(`a text like /${pattern}/`, answer))
  }
  if (checks.timing_ms) found.push(...checkTiming(checks.timing_ms, answer.ms, slackMs))
  found.push(...checkElapsed(checks.elapsed ?? [], answer, slackMs))
  return found
}

const inText = (wanted, answer) => ({ where: 'the body', wanted, got: show(answer.text, 1000) })

function valueAt(path, answer, insideJob) {
  if (!answer.isJson) return MISSING
  const value = at(path, answer.json)
  return value === MISSING && insideJob && isObject(answer.json) ? at(path, answer.json.job ?? MISSING) : value
}

function checkBody(body, answer, insideJob) {
  const found = []
  for (const [path, matcher] of Object.entries(body)) {
    if (path === '$or') {
      const fits = matcher.some((one) => checkBody(one, answer, insideJob).length === 0)
      if (!fits) found.push(inText(`what fits one of ${show(matcher)}`, answer))
    } else if (path === '$empty') {
      if ((answer.text.trim() === '') !== matcher) found.push(inText(matcher ? 'no body' : 'a body', answer))
    } else {
      const different = match(matcher, valueAt(path, answer, insideJob))
      if (different === null) continue
      const got = answer.isJson ? show(different.got) : `a body that is not JSON: ${show(answer.text, 80)}`
      found.push({ where: path + different.below, wanted: different.wanted, got })
    }
  }
  return found
}

function checkTiming({ less_than: below, greater_than: above, approximate }, ms, slackMs) {
  const found = []
  const got = `${Math.round(ms)} ms`
  const where = 'the time it took'
  if (below !== undefined && ms >= below + slackMs) found.push({ where, wanted: `below ${below} ms`, got })
  if (above !== undefined && ms <= above) found.push({ where, wanted: `above ${above} ms`, got })
  if (approximate !== undefined && !isAbout(ms, approximate))
    found.push({ where, wanted: `about ${approximate} ms`, got })
  return found
}

/**
 * How far two of the server's own timestamps lie apart: exact downward, since nothing may end early, and with slack
 * upward, since a machine may be busy. `from` and `to` are paths into the answer, or timestamps of earlier ones.
 */
function checkElapsed(spans, answer, slackMs) {
  const found = []
  for (const { from, to, at_least_ms: least, at_least_s: leastS, at_most_ms: most } of spans) {
    const [begin, end] = [from, to].map((time) => {
      const value = String(time).startsWith('$') ? valueAt(time, answer, false) : time
      return typeof value === 'string' ? Date.parse(value) : NaN
    })
    const where = `from ${from} to ${to}`
    const passed = end - begin
    const got = `${passed} ms`
    if (Number.isNaN(passed)) found.push({ where, wanted: 'two timestamps', got: 'something else' })
    const atLeast = least ?? (leastS === undefined ? -Infinity : leastS * 1000)
    if (passed < atLeast) found.push({ where, wanted: `at least ${atLeast} ms`, got })
    if (most !== undefined && passed > most + slackMs)
      found.push({ where, wanted: `at most ${most + slackMs} ms`, got })
  }
  return found
}

/** Assertions over the answers of earlier steps. */
export function checkAcross(checks, steps, { slackMs = 0 } = {}) {
  const found = []
  for (const [path, wanted] of Object.entries(checks.equality ?? {})) {
    const got = at(path, { steps })
    if (!isDeepStrictEqual(got, wanted)) found.push({ where: path, wanted: show(wanted), got: show(got) })
  }
  if (checks.exclusive_claim) found.push(...checkExclusive(checks.exclusive_claim))
  found.push(...checkElapsed(checks.elapsed ?? [], { isJson: true, json: { steps } }, slackMs))
  return found
}

function checkExclusive({ job_id: id, fetches, exactly_one_has_job: one, exactly_one_empty: other }) {
  const lists = fetches.map((jobs) => (Array.isArray(jobs) ? jobs : []))
  const holders = lists.filter((jobs) => jobs.some((job) => job?.id === id)).length
  const empty = lists.filter((jobs) => jobs.length === 0).length
  const found = []
  if (one && holders !== 1) found.push({ where: 'the fetches', wanted: 'the job in one of them', got: `in ${holders}` })
  if (other && empty !== 1) found.push({ where: 'the fetches', wanted: 'one without a job', got: `${empty} without` })
  return found
}
