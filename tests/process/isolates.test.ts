/** Handlers in threads and processes: what they get, how they end, and what is kept for the next one. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { BOTH, isAlive, moduleUrl, Stage, type Place } from './isolate-stage.ts'
import { until, within } from './server-process.ts'

describe.each(BOTH)('in a %s', (isolation) => {
  test('a handler gets its arguments and gives its result', async () => {
    const stage = new Stage()
    expect(await stage.run('add', { isolation, args: [2, 3] }).result()).toBe(5)
  })

  test('a handler sees its attempt, and its calls are answered', async () => {
    const attempt = new Stage().run('useAll', { isolation, args: ['v1'] })
    attempt.answer = (call) => {
      if (call.op !== 'enqueue') return { ok: true, value: null }
      if (call.type !== 'image.refused') return { ok: true, value: { id: 'job-2' } }
      const error = { name: 'RequestError', message: 'no', code: 'queue_paused', status: 409, retryable: false }
      return { ok: false, error }
    }
    expect(await attempt.result()).toEqual({
      seen: {
        jobId: 'job-1',
        type: 'test.job',
        queue: 'default',
        attempt: 2,
        lease: 2,
        maxAttempts: 3,
        meta: { trace: 't' },
        args: ['v1'],
        lastCheckpoint: { frame: 1 },
      },
      job: { id: 'job-2' },
      refusal: { name: 'RequestError', status: 409, code: 'queue_paused' },
    })
    expect(attempt.calls).toEqual([
      { op: 'progress', value: 0.5, message: 'half', data: { name: 'v1' } },
      { op: 'checkpoint', state: { frame: 400 } },
      { op: 'heartbeat' },
      { op: 'enqueue', type: 'image.thumbnail', input: ['v1'], options: { inheritDeadline: true }, defaults: {} },
      { op: 'enqueue', type: 'image.refused', input: [], options: {}, defaults: {} },
    ])
  })

  test('a warm isolate is used again', async () => {
    const stage = new Stage()
    const first = await stage.run('whereAmI', { isolation }).result<Place>()
    const second = await stage.run('whereAmI', { isolation }).result<Place>()
    expect(second).toEqual({ ...first, used: 2 })
    expect(first.pid === process.pid).toBe(isolation === 'thread')
  })

  test('what it logs is there although it blocks in the next moment and is killed', async () => {
    const stage = new Stage()
    const attempt = stage.run('logAndSpin', { isolation })
    await until('its lines are there', () => attempt.calls.length === 2)
    stage.isolates.stop(attempt.key, { why: 'cancelled' }, 0)
    expect((await attempt.ended).kind).toBe('killed')
    expect(attempt.calls).toMatchObject([
      { op: 'log', dropped: 0, lines: [{ message: 'begins', fields: { n: 1 } }] },
      { op: 'log', dropped: 0, lines: [{ message: 'spins' }] },
    ])
  })

  test('a call after the end is refused where it is made', async () => {
    const stage = new Stage()
    const first = stage.run('speakLate', { isolation })
    await first.ended
    const told = await until('the late call is settled', async () => {
      const result: unknown = await stage.run('speakLate', { isolation }).result()
      return result === 'nothing yet' ? null : result
    })
    expect(told).toBe('attempt_over')
    expect(first.calls).toEqual([])
  })

  test('what it throws is reported with its code and its stack', async () => {
    const ending = await new Stage().run('fail', { isolation }).ended
    expect(ending).toMatchObject({
      kind: 'threw',
      error: { name: 'TypeError', code: 'codec', message: 'no such codec' },
    })
    expect(JSON.stringify(ending)).toContain('handlers.mjs')
  })

  test('results become the same JSON data', async () => {
    const stage = new Stage()
    expect(await stage.run('returnDate', { isolation }).result()).toEqual({ at: '1970-01-01T00:00:00.000Z' })
    expect(await stage.run('returnNothing', { isolation }).result()).toBeUndefined()
  })

  test.each([
    ['returnFunction', 'its field "callback" is a function'],
    ['returnCircle', 'circular'],
    ['returnBigInt', 'it is a bigint'],
  ])('a result that is not JSON (%s) is a TypeError that says so', async (exportName, words) => {
    const ending = await new Stage().run(exportName, { isolation }).ended
    expect(ending).toMatchObject({ kind: 'threw', error: { name: 'TypeError' } })
    expect(JSON.stringify(ending)).toContain('The result of the handler cannot be written as JSON')
    expect(JSON.stringify(ending).replaceAll('\\', '')).toContain(words)
  })

  test('a defined handler has its input and its output checked inside', async () => {
    const stage = new Stage()
    expect(await stage.run('defined', { isolation, args: [{ size: 6 }] }).result()).toEqual({ size: 6 })
    expect(await stage.run('defined', { isolation, args: [{ size: 3 }] }).ended).toMatchObject({
      kind: 'threw',
      error: { code: 'invalid_input', retryable: false, details: { path: '/size' } },
    })
    expect(await stage.run('defined', { isolation, args: [{ size: 4 }] }).ended).toMatchObject({
      kind: 'threw',
      error: { code: 'invalid_input', message: expect.stringContaining('The output of image.scale') },
    })
  })

  test.each([
    ['exit', 'isolate_exited', 'exit code 7'],
    ['throwOutside', 'uncaught_error', 'no handler catches this'],
    ['rejectOutside', 'uncaught_error', 'no code awaits this'],
    ['missing', 'export_not_found', 'has no export "missing"'],
    ['notAHandler', 'export_not_found', 'is not a handler'],
  ])(
    'a handler that ends its isolate (%s) is a death that says why, and the next one runs',
    async (name, code, words) => {
      const stage = new Stage(1)
      expect(await stage.run(name, { isolation }).ended).toMatchObject({
        kind: 'died',
        error: { name: 'IsolateError', code, message: expect.stringContaining(words) },
      })
      expect(await stage.run('add', { isolation, args: [1, 1] }).result()).toBe(2)
    },
  )

  test.each([
    ['missing.mjs', 'module_not_found', 'is not there'],
    ['broken.mjs', 'module_not_found', 'does-not-exist.mjs'],
    ['data:text/javascript,export const handler = (', 'module_failed', 'SyntaxError'],
  ])('a module that cannot be loaded (%s) is a death that says why', async (module, code, words) => {
    expect(await new Stage().run('handler', { isolation, module }).ended).toMatchObject({
      kind: 'died',
      error: { code, message: expect.stringContaining(words) },
    })
  })

  const kindOf = (exportName: string, module = 'handlers.mjs') =>
    ({ isolation, module: moduleUrl(module), exportName, memoryMb: null }) as const

  test('a check loads the module, and the first handler runs where it was loaded', async () => {
    const stage = new Stage(1)
    expect(await stage.isolates.check(kindOf('whereAmI'))).toBeNull()
    expect(await stage.run('whereAmI', { isolation }).result()).toMatchObject({ used: 1 })
  })

  test('checks of two exports of one module are two answers, also where there is room for one isolate only', async () => {
    const { isolates } = new Stage(1)
    const answers = await Promise.all(['add', 'missing', 'whereAmI'].map((name) => isolates.check(kindOf(name))))
    expect(answers).toMatchObject([null, { code: 'export_not_found' }, null])
  })

  test.each([
    ['missing.mjs', 'module_not_found'],
    ['broken.mjs', 'module_not_found'],
    ['data:text/javascript,process.exit(3)', 'isolate_exited'],
    ['data:text/javascript,export const handler = (', 'module_failed'],
  ])('a check of a module that cannot be loaded (%s) tells why', async (module, code) => {
    expect(await new Stage().isolates.check(kindOf('handler', module))).toMatchObject({ code })
  })

  test.each(['fillWithArrays', 'fillWithObjects'])(
    'a memory limit ends the isolate only (%s), and is named',
    async (name) => {
      const stage = new Stage(1)
      expect(await stage.run(name, { isolation, memoryMb: 40 }).ended).toMatchObject({
        kind: 'died',
        error: { code: 'out_of_memory', message: expect.stringContaining('40 MB (memoryMb)') },
      })
      expect(await stage.run('add', { isolation, args: [1, 1] }).result()).toBe(2)
    },
  )

  test('what one handler leaves behind and falls over does not cost the next one its attempt', async () => {
    const stage = new Stage(1)
    const first = await stage.run('leaveBomb', { isolation }).result<Place>()
    // Started as soon as the first has ended, again and again, until the isolate is another one.
    await until('the isolate has gone', async () => {
      const next = await stage.run('leaveBomb', { isolation }).result<Place>()
      return next.pid !== first.pid || next.threadId !== first.threadId
    })
  })

  test('there are never more than the most, whatever is asked for', async () => {
    const stage = new Stage(2)
    const places = await Promise.all(
      Array.from({ length: 12 }, () => stage.run('whereAmI', { isolation }).result<Place>()),
    )
    expect(new Set(places.map(({ pid, threadId }) => `${String(pid)} ${String(threadId)}`)).size).toBeLessThanOrEqual(2)
    // Another kind needs one of the two rooms.
    expect(await stage.run('add', { isolation, args: [1, 1] }).result()).toBe(2)
  })
})

test('a check of a module that never finishes loading fails within its bound, and tells where it is stuck', async () => {
  const { isolates } = new Stage()
  const kind = {
    isolation: 'process',
    module: moduleUrl('busy-module.mjs'),
    exportName: 'handler',
    memoryMb: null,
  } as const
  expect(await isolates.check(kind)).toMatchObject({
    code: 'isolate_start_timeout',
    stack: expect.stringContaining('busyWhileLoading'),
  })
})

test('a handler that crashes its process is a death that names the signal', async () => {
  expect(await new Stage().run('crash', { isolation: 'process' }).ended).toMatchObject({
    kind: 'died',
    error: { code: 'isolate_crashed', message: expect.stringContaining('SIGSEGV') },
  })
})

test('close ends idle and busy processes, and no handle keeps the worker alive', async () => {
  const script = fileURLToPath(new URL('./isolate-worker.mjs', import.meta.url))
  const child = spawn(process.execPath, [script, 'close'], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk))
  // It exits by itself, without process.exit(): nothing is left to wait for.
  const code = await within('the worker exits', new Promise((resolve) => child.once('close', resolve)))
  expect(code).toBe(0)
  expect(said).toContain('to stdout\n')
  expect(said).toContain('ended killed shutdown\n')
  const pids = [...said.matchAll(/^pid (\d+)$/gm)].map(([, pid]) => Number(pid))
  expect(pids).toHaveLength(2)
  for (const pid of pids) expect(isAlive(pid)).toBe(false)
})
