/** Handlers that do not stop by themselves, and workers that are no longer there to stop them. */
import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import type { Ending } from '../../packages/sdk/src/attempt/facts.ts'
import { BOTH, isAlive, now, softStop, Stage, type Place } from './isolate-stage.ts'
import { until } from './server-process.ts'

/** Far above what is measured: a busy machine may be late, but a handler that runs on would never pass. */
const BOUND_MS = 2_000

describe.each(BOTH)('in a %s', (isolation) => {
  test('the signal is aborted at the soft deadline, with the reason, and the result inside the grace counts', async () => {
    const attempt = new Stage().run('waitForSignal', { isolation, softMs: 2_000, graceMs: 30_000 })
    const seen = await attempt.result<{ before: number }>()
    expect(seen).toMatchObject({
      name: 'DeadlineError',
      kind: 'execution',
      source: 'handler',
      isDeadline: true,
      after: 0,
    })
    expect(seen.before).toBeGreaterThan(0)
    expect(seen.before).toBeLessThanOrEqual(2_000)
  })

  test('nothing starts when the soft deadline has passed before', async () => {
    const stage = new Stage(1)
    expect(await stage.run('countStarts', { isolation }).result()).toBe(1)
    expect(await stage.run('countStarts', { isolation, softMs: 0, graceMs: 30_000 }).ended).toMatchObject({
      kind: 'not_begun',
      stop: softStop,
    })
    expect(await stage.run('countStarts', { isolation }).result()).toBe(2)
  })

  test('an attempt without limits has all the time there is', async () => {
    expect(await new Stage().run('timeLeft', { isolation, softMs: Infinity }).result()).toBe('all')
  })

  test('stop aborts the signal at once, with its own reason', async () => {
    const stage = new Stage()
    const attempt = stage.run('waitForSignal', { isolation })
    await attempt.running()
    stage.isolates.stop(attempt.key, { why: 'cancelled' }, now() + 30_000)
    expect(await attempt.result()).toMatchObject({ name: 'CancelledError', isDeadline: false })
  })

  test('a busy loop is killed at the hard deadline, with a stack that names the stuck function', async () => {
    const attempt = new Stage().run('reportAndSpin', { isolation, softMs: 2_000, graceMs: 200 })
    const { pid } = await attempt.running()
    const ending = await attempt.ended
    expect(ending).toMatchObject({ kind: 'killed', stop: softStop })
    expect(stackOf(ending)[0]).toMatch(/^at spinForever \(.*handlers\.mjs:\d+:\d+\)$/)
    expect(stackOf(ending)[1]).toContain('reportAndSpin')
    expect(stackOf(ending).join('\n')).not.toContain('host-handler')
    expect(attempt.endedAt - attempt.hardAt).toBeGreaterThanOrEqual(0)
    expect(attempt.endedAt - attempt.hardAt).toBeLessThan(BOUND_MS)
    if (isolation === 'process') expect(isAlive(pid)).toBe(false)
  })

  test('a loop that V8 would not interrupt is killed too', async () => {
    const stage = new Stage()
    const attempt = stage.run('reportAndFill', { isolation })
    await attempt.running()
    // Long enough for the loop to be optimised.
    const killAt = now() + 1_000
    stage.isolates.stop(attempt.key, { why: 'cancelled' }, killAt)
    expect(await attempt.ended).toMatchObject({ kind: 'killed' })
    expect(attempt.endedAt - killAt).toBeLessThan(900)
  })

  test('a module that never finishes loading is killed all the same', async () => {
    const attempt = new Stage().run('handler', { isolation, module: 'busy-module.mjs', softMs: 2_000 })
    const ending = await attempt.ended
    expect(ending).toMatchObject({ kind: 'not_begun', stop: softStop })
    expect(stackOf(ending)[0]).toContain('busyWhileLoading')
  })

  test('an isolate that was still loading at the soft deadline says so, though it is ready in the grace', async () => {
    const attempt = new Stage().run('handler', { isolation, module: 'slow-module.mjs', softMs: 700, graceMs: 30_000 })
    const ending = await attempt.ended
    expect(ending).toMatchObject({ kind: 'not_begun', stop: softStop })
    expect(startOf(ending)).toBeGreaterThanOrEqual(700)
  })

  test('a handler that spins from its first line is killed, and its ending says how long its isolate took to start', async () => {
    const ending = await new Stage().run('spin', { isolation, softMs: 3_000 }).ended
    expect(ending).toMatchObject({ kind: 'killed', stop: softStop })
    expect(startOf(ending)).toBeGreaterThan(0)
    expect(startOf(ending)).toBeLessThan(3_000)
  })

  test('without a grace the stack is handed on before the attempt is over', async () => {
    const attempt = new Stage().run('reportAndSpin', { isolation, softMs: 3_000, leadMs: 0 })
    expect(await attempt.ended).toMatchObject({ kind: 'killed' })
    expect(attempt.stacks).toEqual([{ at: expect.any(Number), stack: stackOf(await attempt.ended) }])
    expect(attempt.stacks[0]?.stack[0]).toMatch(/^at spinForever /)
    expect(attempt.stacks[0]?.at).toBeLessThan(attempt.hardAt)
  })

  test('a handler cleans up within the grace that is left, also when a stop moves its end nearer', async () => {
    const stage = new Stage()
    const [late, stopped, lost] = [
      stage.run('cleanUp', { isolation, softMs: 2_000, graceMs: 20_000 }),
      stage.run('cleanUp', { isolation, graceMs: 30_000 }),
      stage.run('cleanUp', { isolation, graceMs: 30_000 }),
    ]
    expect(await late.result()).toMatchObject({ before: 20_000, cleaned: true, kind: 'budget' })
    await stopped.running()
    stage.isolates.stop(stopped.key, { why: 'cancelled' }, now() + 10_000)
    const seen = await stopped.result<{ left: number }>()
    expect(seen).toMatchObject({ before: 30_000, cleaned: true, kind: 'budget' })
    expect(seen.left).toBeGreaterThan(0)
    expect(seen.left).toBeLessThanOrEqual(10_000)
    await lost.running()
    stage.isolates.stop(lost.key, { why: 'lost' }, now() + 10_000)
    expect(await lost.result()).toMatchObject({ left: 0, cleaned: 'lost_lease' })
  })

  test('a handler that waits for ever is killed too, and has no stack', async () => {
    const stage = new Stage()
    const attempt = stage.run('ignoreSignal', { isolation })
    await attempt.running()
    stage.isolates.stop(attempt.key, { why: 'shutdown' }, now() + 200)
    expect(await attempt.ended).toMatchObject({ kind: 'killed', stop: { why: 'shutdown' }, stack: null })
  })

  test('stop kills at the instant it names', async () => {
    const stage = new Stage()
    const attempt = stage.run('reportAndSpin', { isolation })
    await attempt.running()
    const killAt = now() + 200
    stage.isolates.stop(attempt.key, { why: 'lost', message: 'stalled' }, killAt)
    expect(await attempt.ended).toMatchObject({ kind: 'killed', stop: { why: 'lost', message: 'stalled' } })
    expect(attempt.endedAt).toBeGreaterThanOrEqual(killAt)
    expect(attempt.endedAt - killAt).toBeLessThan(BOUND_MS)
  })

  test('the handler after a killed one runs elsewhere', async () => {
    const stage = new Stage(1)
    const places: Place[] = []
    for (let round = 0; round < 2; round += 1) {
      const attempt = stage.run('reportAndSpin', { isolation })
      places.push(await attempt.running())
      stage.isolates.stop(attempt.key, { why: 'cancelled' }, now() + 50)
      expect(await attempt.ended).toMatchObject({ kind: 'killed' })
    }
    expect(places[0]).not.toEqual(places[1])
  })
})

test('a busy grandchild dies with its process group', async () => {
  const stage = new Stage()
  const attempt = stage.run('startBusyGrandchild', { isolation: 'process' })
  const { pid, grandchild } = await attempt.running()
  expect(isAlive(grandchild)).toBe(true)
  stage.isolates.stop(attempt.key, { why: 'cancelled' }, now() + 100)
  expect(await attempt.ended).toMatchObject({ kind: 'killed' })
  await until('both are gone', () => !isAlive(pid) && !isAlive(grandchild), BOUND_MS)
})

test('a grandchild is announced before the kill, and the handler keeps its time', async () => {
  const stage = new Stage()
  const attempt = stage.run('startPoliteGrandchild', { isolation: 'process' })
  await attempt.running()
  const killAt = now() + 2_000
  stage.isolates.stop(attempt.key, { why: 'cancelled' }, killAt)
  expect(await attempt.ended).toMatchObject({ kind: 'killed' })
  expect(attempt.calls.at(-1)).toEqual({ op: 'checkpoint', state: 'cleaned up' })
  expect(attempt.endedAt).toBeGreaterThanOrEqual(killAt)
})

test('a process that a handler leaves behind does not outlive its attempt, and the isolate is not used again', async () => {
  const stage = new Stage()
  const { pid, grandchild } = await stage.run('leaveGrandchild', { isolation: 'process' }).result<Place>()
  await until('both are gone', () => !isAlive(pid) && !isAlive(grandchild), BOUND_MS)
})

test('a thread below a thread is killed in time, and its stack is seen, though the main thread is busy', async () => {
  const script = fileURLToPath(new URL('./isolate-worker.mjs', import.meta.url))
  const child = spawn(process.execPath, [script, 'nested'], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk))
  try {
    await until('the handler is killed', () => said.includes('ended killed deadline\n'))
    await until('the stack is printed', () => /^at spinForever /m.test(said))
  } finally {
    child.kill('SIGKILL')
  }
})

test('a process that goes by itself takes along what it has started', async () => {
  const attempt = new Stage().run('exitWithGrandchild', { isolation: 'process' })
  const { grandchild } = await attempt.running()
  expect(await attempt.ended).toMatchObject({ kind: 'died', error: { code: 'isolate_exited' } })
  await until('it is gone', () => !isAlive(grandchild), BOUND_MS)
})

describe('without their worker', () => {
  const started: ChildProcess[] = []
  afterAll(() => {
    for (const child of started) child.kill('SIGKILL')
  })

  /** A worker in a process of its own, with a busy process isolate and a busy grandchild under it. */
  async function worker(how: string): Promise<{ child: ChildProcess; pids: number[]; said: () => string }> {
    const script = fileURLToPath(new URL('./isolate-worker.mjs', import.meta.url))
    const child = spawn(process.execPath, [script, how], { stdio: ['ignore', 'pipe', 'inherit'] })
    started.push(child)
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    const pids = await until('the handlers run', () => {
      const found = [...text.matchAll(/^pid (\d+)$/gm)].map(([, pid]) => Number(pid))
      return found.length === 3 ? found : null
    })
    for (const pid of pids) expect(isAlive(pid)).toBe(true)
    return { child, pids, said: () => text }
  }

  test('kill -9 of the worker takes its process isolates along, grandchildren included', async () => {
    const { child, pids } = await worker('run')
    child.kill('SIGKILL')
    await until('all are gone', () => pids.every((pid) => !isAlive(pid)), BOUND_MS)
  })

  test('process isolates of a stopped worker end themselves when its lease is over', async () => {
    const { child, pids, said } = await worker('lease')
    child.kill('SIGSTOP')
    await until('all are gone', () => pids.every((pid) => !isAlive(pid)), BOUND_MS + 3_000)
    child.kill('SIGCONT')
    await until('the worker has noticed', () => said().match(/^ended killed lost$/gm)?.length === 2)
  })

  test('process isolates of a stopped worker end themselves at the hard deadline', async () => {
    const { child, pids, said } = await worker('hard')
    child.kill('SIGSTOP')
    await until('all are gone', () => pids.every((pid) => !isAlive(pid)), BOUND_MS + 3_000)
    child.kill('SIGCONT')
    await until('the worker has noticed', () => said().match(/^ended killed deadline$/gm)?.length === 2)
  })
})

function startOf(ending: Ending): number {
  return 'startMs' in ending ? (ending.startMs ?? 0) : 0
}

function stackOf(ending: Ending): readonly string[] {
  return ('stack' in ending ? ending.stack : null) ?? []
}
