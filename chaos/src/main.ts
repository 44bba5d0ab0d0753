/**
 * The command: real servers and workers, faults from a seeded schedule, a journal of what clients saw, and a verdict.
 * Everything it draws comes from the seed; what the machine makes of it does not, so a seed finds the same faults, not
 * always the same interleaving.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { seededRandom } from '@curfew/core'
import { check, PROMISES, type Violation } from './checker.ts'
import { pause, until } from './child.ts'
import { Archive, mapAll } from './collect.ts'
import type { Evidence } from './evidence.ts'
import { callsOf, Journal, readJournals, type Call } from './journal.ts'
import { MAX_TOTAL_MS } from './load.ts'
import { BadArguments, HELP, readOptions, type Options } from './options.ts'
import { DEFINITION, JOURNEY, Producer } from './producer.ts'
import { FAULTS, scheduleOf, WORKER_TIMEOUT_MS } from './schedule.ts'
import { storyOf } from './story.ts'
import { World } from './world.ts'

/** The project, seen from chaos/dist/chaos/src. */
const root = fileURLToPath(new URL('../../../..', import.meta.url))
const LATE_MS = 3_000
const PRODUCERS = 3
const AFTERWARDS_MS = 10_000

const say = (text: string): boolean => process.stdout.write(`${text}\n`)

// Its children are killed when it exits; a signal alone would leave them behind.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

try {
  const options = readOptions(process.argv.slice(2), Math.floor(Math.random() * 1e9))
  if (options === 'help') say(HELP)
  else process.exitCode = await runAll(options)
} catch (error) {
  if (!(error instanceof BadArguments)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
}

/** What several runs came to. */
interface Total {
  readonly faults: Map<string, number>
  jobs: number
  journeys: number
  calls: number
  silenceMs: number
  tookMs: number
  violations: number
  /** Runs that could not be judged. */
  brokenOff: number
}

/** One run for each seed, from the first on. */
async function runAll(options: Options): Promise<number> {
  const total: Total = {
    faults: new Map(),
    jobs: 0,
    journeys: 0,
    calls: 0,
    silenceMs: 0,
    tookMs: 0,
    violations: 0,
    brokenOff: 0,
  }
  let code = 0
  if (options.runs === 1) return run(options, total)
  for (let index = 0; index < options.runs; index += 1) {
    const seed = options.seed + index
    try {
      code = Math.max(code, await run({ ...options, seed, out: join(options.out, String(seed)) }, total))
    } catch (error) {
      say(`the run with seed ${String(seed)} broke off: ${String(error)}`)
      total.brokenOff += 1
      code = 1
    }
  }
  const { faults, jobs, journeys, calls, silenceMs, tookMs, violations, brokenOff } = total
  say('')
  say(`${String(options.runs)} runs on ${options.store}, ${(tookMs / 60_000).toFixed(0)} minutes`)
  say(`faults: ${counted(faults)}`)
  say(`kills: ${killsIn(faults)}`)
  say(`calls: ${String(calls)}, jobs: ${String(jobs)}, runs of journeys: ${String(journeys)}`)
  say(`longest time without an answer to an enqueue: ${(silenceMs / 1_000).toFixed(1)} s`)
  if (brokenOff > 0) say(`runs that broke off: ${String(brokenOff)}`)
  say(violations === 0 ? 'no violation' : `${String(violations)} violations`)
  return code
}

async function run(options: Options, total: Total): Promise<number> {
  const { store, seed, servers, seconds } = options
  const out = resolve(options.out)
  const journal = join(out, 'journal')
  rmSync(out, { recursive: true, force: true })
  mkdirSync(journal, { recursive: true })
  say(`chaos on ${store}, ${String(servers)} server(s), ${String(seconds)} s of faults, seed ${String(seed)}`)
  const began = performance.now()
  const world = await World.open(options, root, journal)
  for (const kind of world.skipped) say(`skipped: ${kind} (${FAULTS[kind]}): this machine does not allow it`)
  const archive = new Archive(world.urls)
  try {
    const evidence = await live(options, world, archive, journal)
    writeFileSync(join(out, 'faults.txt'), `${world.told.join('\n')}\n`)
    const violations = check(evidence)
    const tookMs = performance.now() - began
    tell(options, world, evidence, violations, tookMs)
    for (const [kind, count] of world.counts) total.faults.set(kind, (total.faults.get(kind) ?? 0) + count)
    total.jobs += evidence.jobs.size
    total.journeys += evidence.runs.size
    total.calls += evidence.calls.length
    total.silenceMs = Math.max(total.silenceMs, longestSilence(evidence.calls))
    total.tookMs += tookMs
    total.violations += violations.length
    if (violations.length === 0) return 0
    const stories = violations.map((violation) => storyOf(violation, evidence, world.told))
    const file = join(out, 'violations.md')
    writeFileSync(file, [`# Violations, ${store}, seed ${String(seed)}`, '', ...stories].join('\n'))
    say(`The stories are in ${file}`)
    return 1
  } finally {
    await world.close()
    for (const line of world.complaints.slice(0, 20)) say(`a server logged: ${line}`)
  }
}

async function live(options: Options, world: World, archive: Archive, journal: string): Promise<Evidence> {
  const deployed = await archive.put(`/api/v1/definitions/${JOURNEY}`, DEFINITION)
  if (deployed?.status !== 201) throw new Error(`the journey was not deployed: ${JSON.stringify(deployed)}`)
  await world.startWorkers()
  const producers = Array.from({ length: PRODUCERS }, (_, index) => {
    // No two runs with neighbouring seeds share a producer's load.
    const random = seededRandom(options.seed * PRODUCERS + 1 + index)
    const everyMs = (1_000 * PRODUCERS) / options.rate
    return new Producer(world.urls, new Journal(journal, `producer-${String(index + 1)}`), random, everyMs)
  })
  const producing = producers.map((producer) => producer.run())
  const beganAt = performance.now()
  const busy: Promise<void>[] = []
  for (const fault of scheduleOf(options)) {
    await pause(Math.max(0, beganAt + fault.atMs - performance.now()))
    const happening = world.happen(fault)
    // Awaited below: until then a failure must not end the command.
    happening.catch(() => {})
    busy.push(happening)
  }
  await pause(Math.max(0, beganAt + options.seconds * 1_000 - performance.now()))
  await Promise.all(busy)
  for (const producer of producers) producer.stop()
  await Promise.all(producing)
  await until('every job is over', () => archive.isQuiet(), MAX_TOTAL_MS + AFTERWARDS_MS).catch(() => {})
  return gather(world, archive, callsOf(readJournals(journal)))
}

async function gather(world: World, archive: Archive, calls: readonly Call[]): Promise<Evidence> {
  const ids = new Set<string>()
  const runs = new Set<string>()
  for (const { op, request, status, answer } of calls) {
    if (op === 'enqueue' && status !== null) ids.add(String(request['id']))
    if (op === 'start-run' && typeof answer['runId'] === 'string') runs.add(answer['runId'])
  }
  const explained = await mapAll(ids, (id) => archive.explained(id))
  return {
    calls,
    jobs: await mapAll(ids, (id) => archive.job(id)),
    explained: new Map([...explained].flatMap(([id, found]) => (found === null ? [] : [[id, found] as const]))),
    runs: await mapAll(runs, (id) => archive.run(id)),
    events: await archive.events(),
    outages: world.outages,
    absences: world.absences,
    workerTimeoutMs: WORKER_TIMEOUT_MS,
    lateMs: LATE_MS,
  }
}

function tell(
  options: Options,
  world: World,
  evidence: Evidence,
  violations: readonly Violation[],
  tookMs: number,
): void {
  const { calls, jobs } = evidence
  const states = new Map<string, number>()
  for (const job of jobs.values()) states.set(job?.state ?? 'lost', (states.get(job?.state ?? 'lost') ?? 0) + 1)
  say('')
  say(`faults: ${counted(world.counts)}`)
  say(`kills: ${killsIn(world.counts)}`)
  say(
    `calls: ${String(calls.length)}, without an answer: ${String(calls.filter(({ status }) => status === null).length)}`,
  )
  say(
    `jobs: ${String(jobs.size)} (${counted(states)}), runs: ${String(evidence.runs.size)}, events: ${String(evidence.events.length)}`,
  )
  say(`longest time without an answer to an enqueue: ${(longestSilence(calls) / 1_000).toFixed(1)} s`)
  say(`took: ${(tookMs / 1_000).toFixed(0)} s`)
  for (const promise of Object.keys(PROMISES) as (keyof typeof PROMISES)[]) {
    const broken = violations.filter((violation) => violation.promise === promise)
    if (broken.length > 0) say(`VIOLATED ${promise} (${PROMISES[promise]}): ${String(broken.length)}`)
    for (const { subject, what } of broken.slice(0, 5)) say(`  ${subject}: ${what}`)
  }
  say(
    violations.length === 0
      ? `no violation of ${String(Object.keys(PROMISES).length)} promises (store ${options.store}, seed ${String(options.seed)})`
      : `${String(violations.length)} violations (store ${options.store}, seed ${String(options.seed)})`,
  )
}

function killsIn(counts: ReadonlyMap<string, number>): string {
  const [servers, workers] = [counts.get('kill-server') ?? 0, counts.get('kill-worker') ?? 0]
  return `${String(servers + workers)} (${String(servers)} of servers, ${String(workers)} of workers)`
}

function counted(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, count]) => `${name} ${String(count)}`).join(', ')
}

/** Between two answers to enqueues that did not refuse. */
function longestSilence(calls: readonly Call[]): number {
  const answers = calls.filter(({ op, status }) => op === 'enqueue' && status !== null && status < 300)
  const times = answers.map(({ answeredAt }) => answeredAt ?? 0).sort((a, b) => a - b)
  return times.reduce((longest, at, index) => Math.max(longest, at - (times[index - 1] ?? at)), 0)
}
