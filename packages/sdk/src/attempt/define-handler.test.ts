import type { StandardSchemaV1 } from '@standard-schema/spec'
import { expect, test } from 'vitest'
import type { Context } from './context.ts'
import { defineHandler, isHandler, runHandler } from './define-handler.ts'
import { defineJob } from '../job/define-job.ts'
import { errorData } from './error-data.ts'

/** Accepts `{ width: <number as text> }` and gives the number. */
const width: StandardSchemaV1<{ width: string }, { width: number }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate(value) {
      const given = (value as { width?: unknown } | null)?.width
      if (typeof given === 'string' && /^\d+$/.test(given)) return { value: { width: Number(given) } }
      return { issues: [{ message: 'not a width', path: ['width'] }] }
    },
  },
}
const scale = defineJob('image.scale', { input: width, output: width })
const withArgs = (...args: unknown[]): Context => ({ args }) as unknown as Context

test('a defined handler gets its input decoded', async () => {
  const handler = defineHandler(scale, (_ctx, input) => ({ width: String(input.width * 2) }))
  expect(isHandler(handler)).toBe(true)
  expect(await runHandler(handler, withArgs({ width: '21' }))).toEqual({ width: '42' })
})

test('an input that does not fit is final, and names the path', async () => {
  const handler = defineHandler(scale, () => ({ width: '1' }))
  const error: unknown = await runHandler(handler, withArgs({ width: 'wide' })).catch((thrown: unknown) => thrown)
  expect(errorData(error)).toMatchObject({
    name: 'InputError',
    code: 'invalid_input',
    retryable: false,
    details: { path: '/width' },
  })
})

test('an output that does not fit is refused', async () => {
  const handler = defineHandler(scale, () => ({ width: 'wide' }))
  await expect(runHandler(handler, withArgs({ width: '1' }))).rejects.toThrow('The output of image.scale')
})

test('a plain function gets the arguments as they are', async () => {
  expect(await runHandler((_ctx, args) => args.length, withArgs(1, 2, 3))).toBe(3)
})
