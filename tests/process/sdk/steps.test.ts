/**
 * kill -9 on workers before, in, between and after the steps of their jobs, on both stores and in every isolation. What
 * the server has stored of a step is never done again, and the job ends with the results that were stored.
 *
 * CURFEW_STEP_KILLS says how many workers are killed on each store; CURFEW_STEP_SEED by which seed on the first store. Each
 * store has a seed of its own, so that together they reach more of the places.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import { Cluster } from '../../postgres/cluster.ts'
import { runNode, ServerProcess, temporaryDirectory, until } from '../server-process.ts'
import { fresh, ISOLATIONS, tally, type Isolation } from './crew.ts'

const KILLS = Number(process.env['CURFEW_STEP_KILLS'] ?? 6)
const SEED = Number(process.env['CURFEW_STEP_SEED'] ?? 1)
const STEPS = 4
/** Each step passes four places. */
const PLACES = 4 * STEPS
const BOUND_MS = 60_000

interface Line {
  readonly jobId: string
  readonly lease: number
  readonly pid: number
  readonly where: string
  readonly step: string
  readonly leftMs: number
}

interface Result {
  readonly name: string
  readonly token: string
}

let database: Cluster
beforeAll(async () => {
  database = await Cluster.start()
}, 120_000)
afterAll(() => database.remove())

class Story {
  readonly server: ServerProcess
  readonly journal = join(temporaryDirectory(), 'journal')
  readonly random: () => number
  /** What the server had stored of a job when a worker was dead, and how long the journal was then. */
  readonly stored: { jobId: string; lines: number; results: Map<string, string> }[] = []
  readonly killed: string[] = []

  constructor(server: ServerProcess, seed: number) {
    this.server = server
    this.random = seededRandom(seed)
    writeFileSync(this.journal, '')
  }

  lines(): Line[] {
    const text = readFileSync(this.journal, 'utf8')
    return text
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line) as Line)
  }

  /** One worker, from its start until it is dead or its job is over. */
  async life(jobId: string, isolation: Isolation): Promise<boolean> {
    const id = fresh('worker')
    const plug = 1 + Math.floor(this.random() * (PLACES + 2))
    const told = { url: this.server.url, id, isolation, plug, steps: STEPS, journal: this.journal }
    const script = fileURLToPath(new URL('./steps/worker.mjs', import.meta.url))
    const child = runNode(script, { STEPS: JSON.stringify(told) })
    const isOver = await until(
      `job ${jobId} is over, or its worker is dead: ${child.output.stderr}`,
      async () => child.ended() !== null || ((await this.server.job(jobId)).state === 'completed' ? 'over' : undefined),
      BOUND_MS,
    )
    child.signal('SIGKILL')
    await child.exited
    if (isOver === true) this.killed.push(`${isolation} ${this.lines().at(-1)?.where ?? 'at its start'}`)
    // What a dead worker held goes back at once.
    await this.server.call('DELETE', `/ojs/v1/workers/${id}`)
    this.stored.push({ jobId, lines: this.lines().length, results: await this.#resultsOf(jobId) })
    return isOver !== true
  }

  async #resultsOf(jobId: string): Promise<Map<string, string>> {
    const { status, body } = await this.server.get(`/ojs/v1/jobs/${jobId}/checkpoint`)
    if (status !== 200) return new Map()
    const steps = (body.state as { $curfew_steps: { name: string; result?: Result }[] }).$curfew_steps
    return new Map(steps.flatMap(({ name, result }) => (result === undefined ? [] : [[name, result.token]])))
  }
}

async function play(server: ServerProcess, seed: number): Promise<Story> {
  const story = new Story(server, seed)
  const results = new Map<string, readonly Result[]>()
  let lives = 0
  while (story.killed.length < KILLS) {
    const { id } = await server.enqueue({ type: 'steps.work', queue: 'steps', retry: { max_attempts: 1_000 } })
    const jobId = String(id)
    for (let isDone = false; !isDone; lives += 1)
      isDone = await story.life(jobId, ISOLATIONS[lives % ISOLATIONS.length] ?? 'inline')
    results.set(jobId, (await server.job(jobId)).result as readonly Result[])
  }
  const lines = story.lines()
  for (const { jobId, lines: length, results: known } of story.stored) {
    const again = lines.slice(length).filter((line) => line.jobId === jobId && line.where === 'begin')
    expect(again.filter(({ step }) => known.has(step))).toEqual([])
    // Whatever was stored first is what the job ended with.
    for (const [name, token] of known) expect(results.get(jobId)).toContainEqual({ name, token })
  }
  for (const line of lines.filter(({ where }) => where === 'begin')) expect(line.leftMs).toBeGreaterThan(0)
  const begun = tally(lines.filter(({ where }) => where === 'begin').map(({ jobId, step }) => `${jobId} ${step}`))
  const repeats = Object.values(begun).filter((runs) => runs > 1).length
  const killed = JSON.stringify(tally(story.killed))
  process.stdout.write(
    `Seed ${String(seed)}: ${String(story.killed.length)} workers killed, ${String(results.size)} jobs, ${String(Object.keys(begun).length)} steps, ` +
      `${String(repeats)} of them begun again because they were not stored: ${killed}\n`,
  )
  return story
}

test.each([
  ['SQLite', SEED],
  ['PostgreSQL', SEED + 1],
])(
  `workers killed around their steps repeat none that is stored, on %s`,
  async (store, seed) => {
    const flags = store === 'SQLite' ? [] : ['--database', database.url()]
    const server = await ServerProcess.start({ flags })
    onTestFinished(() => server.kill())
    const { killed } = await play(server, seed)
    expect(killed.length).toBeGreaterThanOrEqual(KILLS)
  },
  BOUND_MS + KILLS * 20_000,
)
