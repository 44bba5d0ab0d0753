/** How a worker leaves: by signals, without losing a job and without being taken for dead. */
import { expect, test } from 'vitest'
import { until, within } from '../server-process.ts'
import { Stage } from './stage.ts'

test('SIGTERM with ten running jobs, three of them longer than the drain: seven complete, three run elsewhere', async () => {
  const stage = await Stage.open()
  const { server } = stage
  const first = await stage.worker({ DRAIN: '1500ms' })
  const [short, long] = [await stage.sleepers(7, 900), await stage.sleepers(3, 6_000)]
  await stage.untilRunning(10)
  first.signal('SIGTERM')
  const second = await stage.worker()
  const exit = await within('the worker leaves', first.exited)
  expect(exit).toEqual({ code: 0, signal: null })
  expect(first.output.stdout).toContain('ended')
  for (const id of short) expect(await server.job(id)).toMatchObject({ state: 'completed', attempt: 1 })
  await stage.untilOver(long)
  for (const id of long) {
    const job = (await server.job(id)) as Record<string, unknown>
    expect(job).toMatchObject({ state: 'completed', x_interruptions: 1, result: 1 })
    expect(stage.linesOf(id).map(({ what }) => what)).toContain('stopped:shutdown')
  }
  stage.expectNoOverlap()
  const { events } = (await server.get('/ojs/v1/events?limit=1000')).body as {
    events: { type: string; subject: string }[]
  }
  expect(events.filter(({ type }) => type === 'worker.died')).toEqual([])
  expect(events.filter(({ type }) => type === 'worker.stopped')).toHaveLength(1)
  second.signal('SIGTERM')
  expect(await within('the second worker leaves', second.exited)).toEqual({ code: 0, signal: null })
})

test('an idle worker ends at once, with nothing left that would keep it alive', async () => {
  const stage = await Stage.open()
  const worker = await stage.worker()
  worker.signal('SIGTERM')
  expect(await within('the worker leaves', worker.exited, 3_000)).toEqual({ code: 0, signal: null })
})

test('SIGINT does not wait: handlers are stopped and their jobs go back', async () => {
  const stage = await Stage.open()
  const worker = await stage.worker()
  const [id = ''] = await stage.sleepers(1, 60_000)
  await stage.untilRunning(1)
  worker.signal('SIGINT')
  expect(await within('the worker leaves', worker.exited, 5_000)).toEqual({ code: 0, signal: null })
  expect(await stage.server.job(id)).toMatchObject({ state: 'available', x_interruptions: 1 })
})

test('a second SIGTERM ends the drain', async () => {
  const stage = await Stage.open()
  const worker = await stage.worker({ DRAIN: '60s' })
  const [id = ''] = await stage.sleepers(1, 60_000)
  await stage.untilRunning(1)
  worker.signal('SIGTERM')
  await until('the worker says that it leaves', async () => {
    const { state } = (await stage.server.get(`/ojs/v1/workers/${worker.id}`)).body as { state: string }
    return state === 'terminate'
  })
  worker.signal('SIGTERM')
  expect(await within('the worker leaves', worker.exited, 5_000)).toEqual({ code: 0, signal: null })
  expect(await stage.server.job(id)).toMatchObject({ state: 'available' })
})

test('SIGTSTP makes a worker quiet, SIGCONT brings it back', async () => {
  const stage = await Stage.open()
  const { server } = stage
  const worker = await stage.worker()
  worker.signal('SIGTSTP')
  const stateIs = (wanted: string): Promise<boolean> =>
    until(`the worker is ${wanted}`, async () => {
      const { state } = (await server.get(`/ojs/v1/workers/${worker.id}`)).body as { state: string }
      return state === wanted
    })
  await stateIs('quiet')
  const [id = ''] = await stage.sleepers(1, 10)
  await until('two more beats', async () => {
    const { body } = await server.get(`/ojs/v1/workers/${worker.id}`)
    return Number(new Date(String(body['last_heartbeat_at']))) > Date.now() - 100
  })
  expect(await server.job(id)).toMatchObject({ state: 'available' })
  worker.signal('SIGCONT')
  await stateIs('running')
  await stage.untilOver([id])
})

test('a handler that gives nothing up does not keep a worker from ending', async () => {
  const stage = await Stage.open()
  const worker = await stage.worker({ DRAIN: '200ms' })
  await stage.server.enqueue({ type: 'test.busy', args: [1_500] })
  await stage.untilRunning(1)
  worker.signal('SIGTERM')
  expect(await within('the worker leaves', worker.exited)).toEqual({ code: 0, signal: null })
})
