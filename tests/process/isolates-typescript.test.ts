/** Handlers written in TypeScript, without a build step: on Node 20 through a loader, on later ones as Node has it. */
import { describe, expect, test } from 'vitest'
import { makeHandler } from '../../packages/sdk/src/worker/handlers.ts'
import { BOTH, moduleUrl, now, Stage } from './isolate-stage.ts'

describe.each(BOTH)('in a %s', (isolation) => {
  const module = 'typed.ts'

  test('a TypeScript module runs with its imports, its enum and its top-level await', async () => {
    const attempt = new Stage().run('transcode', { isolation, module, args: ['v1', '720p'] })
    expect(await attempt.result()).toEqual({ loaded: 'loaded', id: 'v1', height: 720, codec: 'av1', fallback: 'vp9' })
    expect(attempt.calls).toEqual([{ op: 'progress', value: 0.5 }])
  })

  test('a module whose types can be erased runs too', async () => {
    const attempt = new Stage().run('handler', { isolation, module: 'erasable.ts', args: ['v1'] })
    expect(await attempt.result()).toBe('v1 vp9')
  })

  test('it shares the classes of the SDK with the isolate it runs in', async () => {
    const stage = new Stage()
    expect(await stage.run('scaled', { isolation, module, args: [21] }).result()).toBe(42)
    const attempt = stage.run('knowsItsReason', { isolation, module })
    await attempt.running()
    stage.isolates.stop(attempt.key, { why: 'cancelled' }, now() + 30_000)
    expect(await attempt.result()).toBe(true)
  })

  test.each([
    ['typed.js', 'typed.ts', 'transcode', { codec: 'av1' }],
    ['erasable.js', 'erasable.ts', 'handler', 'v1 vp9'],
    ['handlers.mts', 'handlers.mjs', 'returnDate', { at: '1970-01-01T00:00:00.000Z' }],
  ])('a module that is named %s and is there as %s runs', async (named, there, exportName, result) => {
    const options = { isolation, module: new URL(moduleUrl(named)), exportName }
    const found = makeHandler('test.job', options, null, {}).module ?? ''
    expect(found).toBe(moduleUrl(there))
    const attempt = new Stage().run(exportName, { isolation, module: found, args: ['v1', '720p'] })
    const got = await attempt.result()
    if (typeof result === 'string') expect(got).toBe(result)
    else expect(got).toMatchObject(result)
  })

  test('its errors name the lines of the source', async () => {
    const ending = await new Stage().run('throwsInLine28', { isolation, module }).ended
    expect(ending).toMatchObject({ kind: 'threw', error: { stack: expect.stringMatching(/typed\.ts:28:/) } })
  })
})
