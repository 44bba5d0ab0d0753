/** A worker that leaves takes nothing with it: no job, no try, and no handler that still runs when its job begins elsewhere. */
import { expect, onTestFinished, test } from 'vitest'
import { pause, until, within } from '../server-process.ts'
import { Crew, fresh, QUICK_BEATS, QUICK_TIMEOUT_MS, tally, type Isolation, type Member } from './crew.ts'

const DEPARTURES = 30
/** So many leave at a time. */
const GROUP = 10
/** So many processes take a while to start on a busy machine. */
const PATIENT = { timeout: 180_000 }
const LONG_MS = 60_000
/** Longer than a stopping worker waits for a handler. */
const DEAF_MS = 9_000
const ONE_TRY = { retry: { max_attempts: 1 } }

/** How workers ended, and what the server thinks of them once they could have been taken for dead. */
async function departures(crew: Crew, left: readonly Member[]): Promise<Record<string, unknown>> {
  const exits = await Promise.all(left.map(({ exited }) => within('a worker ends', exited)))
  // Longer than a worker may be silent: one that came back by a late beat would be declared dead by then.
  await pause(QUICK_TIMEOUT_MS + 500)
  const ids = left.map(({ id }) => id)
  const known = await Promise.all(ids.map(async (id) => (await crew.server.get(`/ojs/v1/workers/${id}`)).status))
  const died = (await crew.events(['worker.died'])).filter(({ subject }) => ids.includes(subject))
  return { exits: tally(exits.map(({ code }) => code)), known: tally(known), died: died.length }
}

const inOrder = (count: number): Record<string, unknown> => ({ exits: { 0: count }, known: { 404: count }, died: 0 })

/** Enqueues one job after the other until it is stopped; answers the ids. */
function traffic(crew: Crew, queue: string): () => Promise<string[]> {
  let isOn = true
  onTestFinished(() => {
    isOn = false
  })
  const stream = async (): Promise<string[]> => {
    const ids: string[] = []
    while (isOn) ids.push(await crew.job(queue, 0, ONE_TRY))
    return ids
  }
  const streams = Promise.all([stream(), stream(), stream()])
  return async () => {
    isOn = false
    return (await streams).flat()
  }
}

test('jobs with one try that arrive while idle workers leave are all completed', PATIENT, async () => {
  const crew = await Crew.open(QUICK_BEATS)
  const queue = fresh('queue')
  await crew.member({ queues: [queue] })
  const left: Member[] = []
  const ids: string[] = []
  while (left.length < DEPARTURES) {
    const group = await crew.members(GROUP, () => ({ queues: [queue] }))
    const end = traffic(crew, queue)
    for (const member of group) {
      member.signal('SIGTERM')
      await crew.journal.wrote(member.pid, 'signal:SIGTERM')
    }
    await Promise.all(group.map(({ exited }) => within('a worker ends', exited)))
    ids.push(...(await end()))
    left.push(...group)
  }
  const jobs = await crew.settled(ids)
  const states = tally(jobs.map(({ state }) => String(state)))
  expect({ states, ...(await departures(crew, left)) }).toEqual({
    states: { completed: ids.length },
    ...inOrder(DEPARTURES),
  })
})

test(
  'a running job that a leaving worker hands back is not taken by it again, and keeps its only try',
  PATIENT,
  async () => {
    const crew = await Crew.open(QUICK_BEATS)
    const kinds = (['inline', 'process'] as const).flatMap((isolation) =>
      ['SIGINT', 'second SIGTERM'].map((how) => ({ isolation, how })),
    )
    const kindOf = (index: number): { isolation: Isolation; how: string } =>
      kinds[index % kinds.length] ?? { isolation: 'inline', how: 'SIGINT' }
    const members: Member[] = []
    const ids: string[] = []
    while (members.length < DEPARTURES) {
      const before = members.length
      const group = await crew.members(GROUP, (index) => ({
        isolation: kindOf(before + index).isolation,
        concurrency: 2,
      }))
      const theirs = await Promise.all(group.map(({ queue }) => crew.job(queue, LONG_MS, ONE_TRY)))
      await crew.begun(theirs)
      await Promise.all(
        group.map(async (member, index) => {
          if (kindOf(before + index).how === 'SIGINT') return member.signal('SIGINT')
          member.signal('SIGTERM')
          await crew.journal.wrote(member.pid, 'signal:SIGTERM')
          member.signal('SIGTERM')
        }),
      )
      members.push(...group)
      ids.push(...theirs)
    }
    const left = await departures(crew, members)
    const jobs = await crew.views(ids)
    const seen = jobs.flatMap(({ id, state, x_interruptions: times }, index) => {
      const { isolation, how } = kindOf(index)
      const found = `${String(state)}, handed back ${String(times)}, begun ${String(crew.journal.runsOf(String(id)).length)}`
      return found === 'available, handed back 1, begun 1' ? [] : [`${isolation} ${how}: ${found}`]
    })
    expect({ wrong: tally(seen), ...left }).toEqual({ wrong: {}, ...inOrder(DEPARTURES) })
  },
)

test('a handler that ignores its signal: its job begins elsewhere only when it is over', PATIENT, async () => {
  const EACH = 5
  const crew = await Crew.open(QUICK_BEATS)
  const queue = fresh('queue')
  // Half of the processes leave by SIGTERM and exit; the others call stop() and go on.
  const members = await crew.members(2 * EACH, (index) => ({
    queues: [queue],
    concurrency: 1,
    drain: '200ms',
    ownSignals: index < EACH,
  }))
  const more = { retry: { max_attempts: 3, initial_interval: 'PT0.1S' }, args: [DEAF_MS, 'deaf'] }
  const ids = await crew.jobs(2 * EACH, queue, DEAF_MS, more)
  await crew.begun(ids)
  const firstPids = ids.map((id) => crew.journal.runsOf(id)[0]?.pid)
  await crew.member({ queues: [queue] })
  for (const [index, member] of members.entries()) member.signal(index < EACH ? 'SIGTERM' : 'SIGUSR2')
  await until('the first runs are over', () => ids.every((id) => isOver(crew, id, members)))
  const done = await crew.settled(ids, 20_000)
  expect(tally(done.map(({ state }) => String(state)))).toEqual({ completed: 2 * EACH })
  const overlapping = (way: readonly Member[]): number => {
    const theirs = ids.filter((_, index) => way.some(({ pid }) => pid === firstPids[index]))
    return theirs.filter((id) => crew.journal.overlaps([id]).length > 0).length
  }
  const found = { SIGTERM: overlapping(members.slice(0, EACH)), 'stop()': overlapping(members.slice(EACH)) }
  expect(found, 'jobs of which two runs overlapped').toEqual({ SIGTERM: 0, 'stop()': 0 })
  // A process that exits takes its handler along, so the job runs again; one that goes on lets its handler finish.
  const runs = (way: readonly Member[]): number =>
    ids
      .filter((_, index) => way.some(({ pid }) => pid === firstPids[index]))
      .reduce((sum, id) => sum + crew.journal.runsOf(id).length, 0)
  expect([runs(members.slice(0, EACH)), runs(members.slice(EACH))]).toEqual([2 * EACH, EACH])
})

/** The first run has ended, or the process that ran it. */
function isOver(crew: Crew, id: string, members: readonly Member[]): boolean {
  const [first] = crew.journal.runsOf(id)
  if (first === undefined) return false
  return first.endedAt !== null || members.some((member) => member.pid === first.pid && member.ended() !== null)
}
