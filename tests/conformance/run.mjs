#!/usr/bin/env node
// Plays OJS conformance cases (JSON files) against any OJS server. Node 20 or newer, nothing to install; README.md
// beside this file tells what a case looks like. SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readCases } from './lib/cases.mjs'
import { reasonOf, send } from './lib/http.mjs'
import { notNamed, notOffered } from './lib/manifest.mjs'
import { failureText, lastLine, replayed, resultText, table, totals } from './lib/report.mjs'
import { runAll } from './lib/run-all.mjs'

const here = dirname(fileURLToPath(import.meta.url))

const USAGE = `node run.mjs --url URL [options]

  --url URL          the server (or the variable OJS_TEST_URL)
  --suites DIR       a folder of cases; more than once for more folders (the cases beside this file)
  --only REGEX       only cases whose path, id or one of whose tags it matches
  --skip REGEX       none of those
  --level LIST       only these: 0, 1, 0-2, ext, 3,ext (by folder: level-N-…, all others are ext)
  --with TAG         also cases with this tag, for tags that begin with x_: what one server has and OJS has not
  --offered          leave out what the server's manifest says it does not have (cases that require an extension which the
                     manifest does not name are always left out)
  --concurrency N    so many at a time (8)
  --reset-url URL    POST there before every case; then one at a time
  --token TOKEN      sent as Authorization: Bearer
  --header 'N: v'    sent with every request; more than once for more
  --timeout MS       for one answer (30000)
  --slack MS         more time for every upper bound, for machines with too much to do (0)
  --replays N        play a case that failed while the machine was busy so often again (2)
  --expected FILE    cases that are known to fail, and why (expected-failures.json beside this file)
  --json FILE        write everything down
  --verbose          a line for every case

Exit status: 0 nothing failed, 1 something did, 2 it could not be tried.
`

class UsageError extends Error {}

/**
 * Answers the exit status; throws UsageError for what is status 2.
 * @param {string[]} args
 * @param {{log: (text: string) => void}} out
 */
export async function main(args, out = console) {
  const options = readOptions(args)
  if (options.help) {
    out.log(USAGE)
    return 0
  }
  const cases = read(options)
  if (cases.length === 0) throw new UsageError('no case fits --only, --level and --suites')
  const stop = new AbortController()
  const interrupted = () => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
  try {
    const world = { ...options, signal: stop.signal }
    await mustAnswer(world)
    const asks = options.offered || cases.some(({ requires }) => requires.length > 0)
    const { chosen, left } = choose(cases, options, asks ? await manifestOf(world) : null)
    const began = new Date()
    const tell = (one, result) => {
      if (options.verbose || result.status === 'failed') out.log(resultText(one, result))
    }
    for (const { case: one, ...result } of left) tell(one, result)
    const known = options.expected
    const run = await runAll(chosen, world, (one, result) => tell(one, judged(one, result, known)))
    if (stop.signal.aborted) throw new UsageError('interrupted')
    const results = [...run.map((result) => judged(result.case, result, known)), ...left]
    const total = totals(results)
    if (options.json) writeFileSync(options.json, `${JSON.stringify(written(options, began, results), null, 2)}\n`)
    out.log(`\n${table(results)}\n\n${replayed(results)}${lastLine(total)}`)
    return total.failed > 0 || total.passed === 0 ? 1 : 0
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted)
  }
}

/** A case that is known to fail may fail; when it passes all the same, that is reported. */
function judged(one, result, known) {
  const reason = known.get(one.id)
  if (reason === undefined) return result
  if (result.status === 'failed') return { ...result, status: 'expected', reason }
  return { ...result, reason: 'though it was expected to fail' }
}

const fits = (regex, one) => [one.file, one.id, ...one.tags].some((name) => regex.test(name))

function read({ suites, only, levels }) {
  const cases = suites.flatMap((folder) => {
    try {
      return readCases(folder)
    } catch (error) {
      throw new UsageError(`--suites: ${error.message}`)
    }
  })
  return cases.filter((one) => (!only || fits(only, one)) && (!levels || levels.has(one.level)))
}

function choose(cases, options, manifest) {
  const chosen = []
  const left = []
  for (const one of cases) {
    const reason = reasonToSkip(one, options, manifest)
    if (reason) left.push({ case: one, suite: one.suite, status: 'skipped', reason, failures: [], ms: 0 })
    else chosen.push(one)
  }
  return { chosen, left }
}

function reasonToSkip(one, { skip, tags, offered }, manifest) {
  if (skip && fits(skip, one)) return '--skip'
  const special = one.tags.find((tag) => tag.startsWith('x_') && !tags.has(tag))
  if (special !== undefined) return `only with --with ${special}`
  const unnamed = notNamed(one, manifest)
  if (unnamed !== undefined) return `the manifest of the server does not name ${unnamed}`
  const missing = offered ? notOffered(one, manifest) : undefined
  return missing === undefined ? null : `the server does not offer ${missing}`
}

async function manifestOf({ base, headers, timeoutMs, signal }) {
  const { json } = await send({ method: 'GET', url: `${base}/ojs/manifest`, headers, timeoutMs, signal })
  return json ?? {}
}

async function mustAnswer({ base, headers, timeoutMs, signal }) {
  try {
    await send({ method: 'GET', url: `${base}/ojs/v1/health`, headers, timeoutMs, signal })
  } catch (error) {
    throw new UsageError(`${base} cannot be reached: ${reasonOf(error)}`)
  }
}

function written({ base }, began, results) {
  const cases = results.map(({ case: { file, id, name, level, tags }, status, reason, ms, round, failures }) => {
    return { file, test_id: id, name, level, tags, status, reason, duration_ms: ms, replays: round, failures }
  })
  cases.sort((a, b) => (a.file < b.file ? -1 : 1))
  return {
    url: base,
    started_at: began.toISOString(),
    duration_ms: Date.now() - began.getTime(),
    totals: totals(results),
    cases,
  }
}

// ---- Options ----

function readOptions(args) {
  const text = { type: 'string' }
  const many = { type: 'string', multiple: true, default: [] }
  const flag = { type: 'boolean', default: false }
  let given
  try {
    const options = { url: text, only: text, skip: text, level: text, json: text, token: text, expected: text }
    Object.assign(options, { concurrency: text, replays: text, timeout: text, slack: text, 'reset-url': text })
    Object.assign(options, { suites: many, with: many, header: many, verbose: flag, offered: flag, help: flag })
    given = parseArgs({ args, options }).values
  } catch (error) {
    throw new UsageError(error.message)
  }
  const url = given.url ?? process.env.OJS_TEST_URL
  if (url === undefined && !given.help) throw new UsageError('--url is missing')
  const resetUrl = given['reset-url'] && address('reset-url', given['reset-url'])
  return {
    help: given.help,
    verbose: given.verbose,
    offered: given.offered,
    json: given.json,
    base: url && address('url', url),
    resetUrl,
    suites: given.suites.length > 0 ? given.suites.map((folder) => resolve(folder)) : [join(here, 'cases')],
    only: regex('only', given.only),
    skip: regex('skip', given.skip),
    levels: given.level === undefined ? null : levelsOf(given.level),
    tags: new Set(given.with),
    headers: headersOf(given),
    concurrency: resetUrl ? 1 : whole('concurrency', given.concurrency ?? '8', 1),
    replays: whole('replays', given.replays ?? '2', 0),
    timeoutMs: whole('timeout', given.timeout ?? '30000', 1),
    slackMs: whole('slack', given.slack ?? '0', 0),
    expected: expectedFailures(given.expected ?? join(here, 'expected-failures.json')),
  }
}

function address(name, value) {
  if (/^https?:/.test(value) && URL.canParse(value)) return value.replace(/\/+$/, '')
  throw new UsageError(`--${name} ${value}: not an http address`)
}

function regex(name, value) {
  try {
    return value === undefined ? null : new RegExp(value, 'i')
  } catch (error) {
    throw new UsageError(`--${name}: ${error.message}`)
  }
}

function whole(name, value, least) {
  if (/^\d+$/.test(value) && Number(value) >= least) return Number(value)
  throw new UsageError(`--${name} ${value}: not a whole number of at least ${least}`)
}

function levelsOf(list) {
  return new Set(
    list.split(',').flatMap((part) => {
      const range = /^(\d)(?:-(\d))?$/.exec(part.trim())
      if (part.trim() === 'ext') return ['ext']
      if (range === null) throw new UsageError(`--level ${list}: such as 0, 0-2 or 3,ext`)
      const [from, to] = [Number(range[1]), Number(range[2] ?? range[1])]
      return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => String(from + i))
    }),
  )
}

function headersOf({ header, token }) {
  const headers = {}
  for (const line of header) {
    const colon = line.indexOf(':')
    if (colon < 1) throw new UsageError(`--header ${line}: such as 'Name: value'`)
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim()
  }
  if (token !== undefined) headers['Authorization'] = `Bearer ${token}`
  return headers
}

function expectedFailures(file) {
  try {
    return new Map(JSON.parse(readFileSync(file, 'utf8')).map(({ test_id: id, reason }) => [id, reason]))
  } catch (error) {
    throw new UsageError(`--expected: ${error.message}`)
  }
}

export { failureText, UsageError }

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = await main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    console.error(`${error.message}\n(--help tells more)`)
    process.exitCode = 2
  }
}
