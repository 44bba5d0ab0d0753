/**
 * Three servers on one database, their wall clocks wrong by a minute and a half in both directions, under load; servers
 * are killed and stopped at random, the database is restarted twice. CHAOS_SECONDS=600 makes it long.
 */
import { expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import { Cluster } from '../postgres/cluster.ts'
import { pause, until } from '../process/server-process.ts'
import { Fleet, type Member } from './fleet.ts'
import { GRACE_MS, TIMEOUT_MS, TOTAL_MS, Work } from './work.ts'

const SECONDS = Number(process.env['CHAOS_SECONDS'] ?? 25)
const SEED = Number(process.env['SEED'] ?? 1)
/** Silence after which a worker is dead; servers are stopped for longer than that. */
const WORKER_TIMEOUT_MS = 8_000
/** How late a decision may be seen while the machine is this busy and servers die in the middle of it. */
const LATE_MS = 3_000

interface Downtime {
  readonly from: number
  to: number
}

interface Span {
  readonly kind: string
  readonly from: string
  readonly to: string | null
}

test(
  'nothing acknowledged is lost, nothing runs twice at once, nothing outlives its deadline',
  { timeout: (SECONDS + 120) * 1_000 },
  async () => {
    const random = seededRandom(SEED)
    const database = await Cluster.start({ fsync: true })
    const fleet = await Fleet.start({
      database: database.url(),
      skewsMs: [90_000, -90_000, 0],
      flags: ['--workers-heartbeat-timeout', `${String(WORKER_TIMEOUT_MS)}ms`, '--workers-heartbeat-interval', '1s'],
    })
    const work = new Work(fleet, random)
    const downtimes: Downtime[] = []
    const producers = [work.produce(), work.produce(), work.produce()]
    let died: readonly unknown[]
    const workers = ['w1', 'w2', 'w3', 'w4', 'w5'].map((id) => work.work(id))
    try {
      await rage(fleet, database, downtimes, random)
      work.stopProducing()
      await Promise.all(producers)
      await until('every job is over', () => isQuiet(fleet), TOTAL_MS + 30_000)
      // Before they stop: then they are silent, and soon dead indeed.
      died = await declaredDead(fleet)
    } catch (error) {
      console.log(tale(fleet))
      throw error
    } finally {
      work.stopWorking()
      work.stopProducing()
    }
    await Promise.all(workers)
    await examine(fleet, work, downtimes, died)
    const logs = await fleet.stop()
    await database.remove()
    // Whatever happened, no server met anything it did not know how to answer.
    expect(
      logs
        .join('')
        .split('\n')
        .filter((line) => line.includes('"level":50') && !line.includes('cannot serve')),
    ).toEqual([])
    console.log(
      `seed ${String(SEED)}: ${String(work.enqueued.size)} jobs, ${String(work.claims)} claims, ${String(work.completed.size)} completions acknowledged`,
    )
  },
)

/** At every moment at least one server is up and running; the database is restarted at a third and at two thirds. */
async function rage(fleet: Fleet, database: Cluster, downtimes: Downtime[], random: () => number): Promise<void> {
  const endsAt = performance.now() + SECONDS * 1_000
  const restarts = [SECONDS / 3, (2 * SECONDS) / 3].map((at) => performance.now() + at * 1_000)
  const busy: Promise<unknown>[] = []
  const hurt = new Set<Member>()
  while (performance.now() < endsAt) {
    if ((restarts[0] ?? Infinity) < performance.now()) {
      restarts.shift()
      fleet.tell('the database stops')
      const down: Downtime = { from: Date.now(), to: Date.now() }
      await database.stop(random() < 0.5 ? 'fast' : 'immediate')
      await pause(500 + 1_000 * random())
      await database.start()
      down.to = Date.now()
      fleet.tell('the database is back')
      downtimes.push(down)
    }
    const whole = fleet.members.filter((member) => !hurt.has(member))
    const victim = whole[Math.floor(random() * whole.length)]
    if (whole.length > 1 && victim !== undefined) {
      hurt.add(victim)
      const harmed = harm(fleet, victim, random).then(
        () => null,
        (error: unknown) => error,
      )
      busy.push(harmed.finally(() => hurt.delete(victim)))
    }
    await pause(500 + 2_000 * random())
  }
  expect((await Promise.all(busy)).filter((error) => error !== null)).toEqual([])
}

async function harm(fleet: Fleet, victim: Member, random: () => number): Promise<void> {
  if (random() < 0.5) {
    await fleet.kill(victim)
    await pause(1_000 * random())
    await fleet.start(victim)
  } else {
    fleet.pause(victim)
    await pause(random() < 0.5 ? 1_500 : WORKER_TIMEOUT_MS + 2_000)
    fleet.resume(victim)
    await pause(500)
  }
}

async function isQuiet(fleet: Fleet): Promise<boolean> {
  const states = ['scheduled', 'available', 'active', 'retryable', 'pending']
  for (const state of states) {
    const reply = await fleet.call('GET', `/ojs/v1/jobs?state=${state}&limit=1`)
    if (reply?.status !== 200 || reply.body.pagination.total > 0) return false
  }
  return true
}

async function declaredDead(fleet: Fleet): Promise<readonly unknown[]> {
  const reply = await fleet.call('GET', '/ojs/v1/events?types=worker.died&limit=10')
  expect(reply?.status).toBe(200)
  return reply?.body.events as unknown[]
}

async function examine(
  fleet: Fleet,
  work: Work,
  downtimes: readonly Downtime[],
  died: readonly unknown[],
): Promise<void> {
  const wrong: string[] = [...work.violations]
  for (const event of died) wrong.push(`a living worker was declared dead: ${JSON.stringify(event)}`)
  for (const id of work.enqueued) {
    const reply = await fleet.call('GET', `/ojs/v1/jobs/${id}`)
    if (reply?.status !== 200) {
      wrong.push(`${id} was acknowledged and is lost: ${String(reply?.status)}`)
      continue
    }
    const { job } = reply.body
    const lease = work.completed.get(id)
    if (lease !== undefined && (job.state !== 'completed' || job.result?.lease !== lease))
      wrong.push(
        `${id} was completed by lease ${String(lease)} and is ${String(job.state)} (${JSON.stringify(job.result)})`,
      )
    const explained = await fleet.call('GET', `/ojs/v1/jobs/${id}/explain`)
    for (const { kind, from, to } of (explained?.body.spans ?? []) as Span[]) {
      const [start, end] = [Date.parse(from), Date.parse(to ?? from)]
      const late = end - start - allowed(kind)
      if (late > LATE_MS + overlap(downtimes, start, end))
        wrong.push(`${id} was in ${kind} from ${from} to ${String(to)}, ${String(late)} ms too long`)
    }
    const ended = Date.parse(String(job.completed_at ?? job.discarded_at ?? job.cancelled_at))
    const late = ended - Date.parse(String(job.created_at)) - TOTAL_MS
    if (late > LATE_MS + overlap(downtimes, ended - TOTAL_MS, ended))
      wrong.push(`${id} lived ${String(late)} ms longer than it may`)
  }
  if (wrong.length > 0) console.log(tale(fleet))
  expect(wrong).toEqual([])
  expect(work.enqueued.size).toBeGreaterThan(SECONDS)
  expect(work.completed.size).toBeGreaterThan(work.enqueued.size / 2)
}

function tale(fleet: Fleet): string {
  return [...fleet.story, ...fleet.complaints].join('\n')
}

function allowed(kind: string): number {
  if (kind === 'attempt') return TIMEOUT_MS
  return kind === 'grace' ? GRACE_MS : TOTAL_MS
}

function overlap(downtimes: readonly Downtime[], from: number, to: number): number {
  return downtimes.reduce((sum, down) => sum + Math.max(0, Math.min(to, down.to) - Math.max(from, down.from)), 0)
}
