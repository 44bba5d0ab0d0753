/** Workflows whose members end on several servers at the same time, and on one that is killed in between. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { until, type Reply, type ServerProcess } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [60_000, -60_000] })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

const server = (index: number): ServerProcess => {
  const found = fleet.members[index % fleet.members.length]?.server
  if (found == null) throw new Error(`server ${String(index)} is not there`)
  return found
}

const job = (type: string, queue: string): object => ({
  type,
  args: [],
  options: { queue, retry: { max_attempts: 1 } },
})
const hooks = (queue: string): object => ({
  on_complete: job('hook.complete', queue),
  on_success: job('hook.success', queue),
  on_failure: job('hook.failure', queue),
})

interface WorkflowView {
  readonly id: string
  readonly state: string
  readonly jobs_completed: number
  readonly metadata: { readonly failed_count: number }
}

async function begin(body: object): Promise<string> {
  const { status, body: answer } = await server(0).post('/ojs/v1/workflows', body)
  expect(status).toBe(201)
  return (answer['workflow'] as WorkflowView).id
}

const look = async (index: number, id: string): Promise<WorkflowView> =>
  (await server(index).get(`/ojs/v1/workflows/${id}`)).body['workflow'] as WorkflowView

/** Takes everything there is in a queue, some at either server. */
async function takeAll(queue: string, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let turn = 0; ids.length < count; turn += 1) {
    const jobs = await server(turn).fetch({ queues: [queue], count: 20, worker_id: 'w' })
    ids.push(...jobs.map(({ id }: { id: string }) => id))
  }
  return ids
}

/** How often something was told of a workflow. */
async function told(type: string, id: string): Promise<number> {
  const { events } = (await server(1).get(`/ojs/v1/events?types=${type}&limit=1000`)).body
  return (events as { subject: string }[]).filter(({ subject }) => subject === id).length
}

const typesIn = async (queue: string): Promise<string[]> =>
  (await server(0).fetch({ queues: [queue], count: 50 })).map(({ type }: { type: string }) => type)

test('members that end on two servers at once are each counted, and the callbacks called once', async () => {
  const members = 120
  const id = await begin({
    type: 'batch',
    jobs: Array.from({ length: members }, () => job('member', 'members')),
    callbacks: hooks('called'),
  })
  const ids = await takeAll('members', members)
  const report = (jobId: string, index: number): Promise<Reply> =>
    index === 7
      ? server(index).post('/ojs/v1/workers/nack', { job_id: jobId, error: { message: 'no' } })
      : server(index).post('/ojs/v1/workers/ack', { job_id: jobId, result: index })
  const replies = await Promise.all(ids.map(report))
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]))
  expect((await typesIn('called')).sort()).toEqual(['hook.complete', 'hook.failure'])
  for (const index of [0, 1]) {
    expect(await look(index, id)).toMatchObject({
      state: 'running',
      jobs_completed: members - 1,
      metadata: { failed_count: 1 },
    })
  }
  expect(await told('workflow.callback_fired', id)).toBe(2)
})

test('diamonds whose sides end on different servers at once start their bottom exactly once', async () => {
  const step = (id: string, queue: string, ...depends_on: string[]): object => ({ ...job(id, queue), id, depends_on })
  const diamonds = 15
  const begun = await Promise.all(
    Array.from({ length: diamonds }, () =>
      begin({ steps: [step('l', 'sides'), step('r', 'sides'), step('b', 'bottoms', 'l', 'r')] }),
    ),
  )
  const sides = await takeAll('sides', 2 * diamonds)
  await Promise.all(sides.map((id, index) => server(index).post('/ojs/v1/workers/ack', { job_id: id })))
  expect(await typesIn('bottoms')).toEqual(Array.from({ length: diamonds }, () => 'b'))
  for (const id of begun) expect((await look(1, id)).jobs_completed).toBe(2)
})

test('a cancel at one server against acks at the other: no step starts after it, and no call is left without an answer', async () => {
  for (let round = 0; round < 10; round += 1) {
    const queue = `race-${String(round)}`
    const id = await begin({ type: 'chain', steps: [job('a', queue), job('b', queue), job('c', queue)] })
    const [first] = await takeAll(queue, 1)
    const [ack, cancelled] = await Promise.all([
      server(0).post('/ojs/v1/workers/ack', { job_id: first }),
      server(1).call('DELETE', `/ojs/v1/workflows/${id}`),
    ])
    expect([ack.status, cancelled.status]).toEqual([200, 200])
    expect(await typesIn(queue)).toEqual([])
    expect((await look(0, id)).state).toBe('cancelled')
  }
})

test('a server that is killed while members are reported: whatever was acknowledged counts, and nothing is lost', async () => {
  const members = 60
  const id = await begin({
    type: 'batch',
    jobs: Array.from({ length: members }, () => job('member', 'killed')),
    callbacks: { on_complete: job('hook.complete', 'after') },
  })
  const ids = await takeAll('killed', members)
  const [victim] = fleet.members
  if (victim === undefined) throw new Error('there is no server')
  const ack = (jobId: string, index: number): Promise<Reply | null> =>
    fleet.callOnce('POST', '/ojs/v1/workers/ack', { job_id: jobId }, 3_000, index)
  const half = Promise.all(ids.slice(0, members / 2).map(ack))
  await fleet.kill(victim)
  await half
  await fleet.start(victim)
  // Those that were heard answer 409 now; the others are acknowledged only here.
  for (const jobId of ids) {
    const reply = await fleet.call('POST', '/ojs/v1/workers/ack', { job_id: jobId })
    expect([200, 409]).toContain(reply?.status)
  }
  await until('the callback is there', async () => (await look(1, id)).jobs_completed === members)
  expect(await typesIn('after')).toEqual(['hook.complete'])
})

test('a workflow’s deadline is decided once, by whichever server is there', async () => {
  const id = await begin({
    type: 'group',
    jobs: Array.from({ length: 40 }, () => job('slow', 'slow')),
    workflow_timeout_ms: 1_500,
  })
  await takeAll('slow', 40)
  await until('the deadline', async () => (await look(0, id)).state === 'failed')
  expect(await told('workflow.failed', id)).toBe(1)
  expect(await typesIn('slow')).toEqual([])
  expect(fleet.complaints).toEqual([])
})
