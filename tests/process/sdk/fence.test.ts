/** Two attempts of a job never overlap, whichever stands still: the server, or the worker. */
import { describe, expect, test } from 'vitest'
import { pause, until } from '../server-process.ts'
import { Stage } from './stage.ts'

const NEVER_ENDING = 60_000

describe.each(['inline', 'thread', 'process'])('%s', (ISOLATION) => {
  test('the server stands still for longer than a worker may be silent', async () => {
    const stage = await Stage.open()
    const { server } = stage
    await stage.worker({ ISOLATION })
    await stage.worker({ ISOLATION })
    const ids = await stage.sleepers(6, NEVER_ENDING, { retry: { max_attempts: 20 } })
    await stage.untilRunning(6)
    server.signal('SIGSTOP')
    await until('every handler was stopped', () => stopped(stage, ids), 5_000)
    await pause(1_000)
    server.signal('SIGCONT')
    await until('the jobs run again', () => ids.every((id) => stage.linesOf(id).some(({ attempt }) => attempt > 1)))
    stage.expectNoOverlap()
    for (const id of ids) expect(await server.job(id)).toMatchObject({ state: 'active' })
  })

  test('a worker stands still for longer than it may be silent', async () => {
    const stage = await Stage.open()
    const { server } = stage
    const first = await stage.worker({ ISOLATION })
    const ids = await stage.sleepers(4, NEVER_ENDING, { retry: { max_attempts: 20 } })
    await stage.untilRunning(4)
    await stage.worker({ ISOLATION })
    first.signal('SIGSTOP')
    await until('the jobs run elsewhere', () => ids.every((id) => stage.linesOf(id).some(({ attempt }) => attempt > 1)))
    first.signal('SIGCONT')
    await until(
      'the worker is known again',
      async () => (await server.get(`/ojs/v1/workers/${first.id}`)).status === 200,
    )
    await pause(300)
    stage.expectNoOverlap({ frozen: first })
    for (const id of ids) expect(await server.job(id)).toMatchObject({ state: 'active', attempt: 2 })
  })
})

/** Each of these jobs has written its last line: nothing of it runs. */
function stopped(stage: Stage, ids: readonly string[]): boolean {
  const now = Number(process.hrtime.bigint()) / 1e6
  return ids.every((id) => now - (stage.linesOf(id).at(-1)?.at ?? now) > 200)
}

describe('a busy handler', () => {
  /** Long enough for a busy machine: a worker that does not beat while its handler runs is silent for longer. */
  const SILENCE = ['--workers-heartbeat-timeout', '4s']
  const BUSY_MS = 7_000

  async function expectOneAttempt(stage: Stage, id: string): Promise<void> {
    await stage.untilOver([id])
    expect(await stage.server.job(id)).toMatchObject({ state: 'completed', attempt: 1 })
    const { events } = (await stage.server.get('/ojs/v1/events?limit=1000')).body as { events: { type: string }[] }
    expect(events.map(({ type }) => type)).not.toContain('worker.died')
  }

  test('does not keep its worker from beating', async () => {
    const stage = await Stage.open(SILENCE)
    const worker = await stage.worker({ CONCURRENCY: '1' })
    const { id } = (await stage.server.enqueue({ type: 'test.busy', args: [BUSY_MS] })) as { id: string }
    await expectOneAttempt(stage, id)
    expect(worker.ended()).toBeNull()
  })

  test('is vouched for even if it blocks the very turn in which its job arrives', async () => {
    const stage = await Stage.open(SILENCE)
    await stage.worker({ CONCURRENCY: '1' })
    const job = { type: 'test.block', args: [BUSY_MS], heartbeat_timeout_ms: 4_000 }
    const { id } = (await stage.server.enqueue(job)) as { id: string }
    await expectOneAttempt(stage, id)
  })
})
