/** A kind of job through three real schema libraries: what is enqueued is what the handler gets. */
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { checkOutput, decodeInput, decodeOutput, defineJob, encodeInput, type AnyJob } from './define-job.ts'
import { InputError } from '../errors.ts'

/** Through the wire and back. */
async function travel(job: AnyJob, input: unknown): Promise<unknown> {
  const args = await encodeInput(job, input)
  return decodeInput(job, JSON.parse(JSON.stringify(args)) as unknown[])
}

const LIBRARIES = {
  zod: {
    tuple: z.tuple([z.string(), z.enum(['720p', '1080p'])]),
    one: z.tuple([z.string()]),
    object: z.object({ id: z.string(), size: z.number().optional() }),
    loose: z.object({ id: z.string().optional() }),
    lists: z.array(z.array(z.number())),
    any: z.array(z.unknown()),
    word: z.string(),
  },
  valibot: {
    tuple: v.tuple([v.string(), v.picklist(['720p', '1080p'])]),
    one: v.tuple([v.string()]),
    object: v.object({ id: v.string(), size: v.optional(v.number()) }),
    loose: v.object({ id: v.optional(v.string()) }),
    lists: v.array(v.array(v.number())),
    any: v.array(v.unknown()),
    word: v.string(),
  },
  arktype: {
    tuple: type(['string', "'720p' | '1080p'"]),
    one: type(['string']),
    object: type({ id: 'string', 'size?': 'number' }),
    loose: type({ 'id?': 'string' }),
    lists: type('number[][]'),
    any: type('unknown[]'),
    word: type('string'),
  },
}

describe.each(Object.entries(LIBRARIES))('%s', (_, schemas) => {
  const job = (name: keyof typeof schemas): AnyJob => defineJob('a.b', { input: schemas[name] })

  test.each([
    ['a tuple', 'tuple', ['v1', '720p']],
    ['a tuple of one', 'one', ['v1']],
    ['an object', 'object', { id: 'v1', size: 3 }],
    ['an object whose keys are all optional', 'loose', { id: 'v1' }],
    ['a list of lists', 'lists', [[1, 2]]],
    ['a list in a list of anything', 'any', [['a']]],
    ['an empty list', 'lists', []],
    ['a word', 'word', 'hello'],
  ] as const)('%s arrives as it was sent', async (_, name, input) => {
    expect(await travel(job(name), input)).toEqual(input)
  })

  test.each([
    ['tuple', ['v1', '480p'], '/1'],
    ['object', { id: 5 }, '/id'],
  ] as const)('a wrong %s is refused before it is sent, with the path', async (name, input, path) => {
    const thrown: unknown = await encodeInput(job(name), input).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(InputError)
    expect(thrown).toMatchObject({ code: 'invalid_input', details: { path } })
  })

  test('arguments that no longer fit are refused on arrival, with the path', async () => {
    await expect(decodeInput(job('object'), [{ id: 5 }])).rejects.toMatchObject({ details: { path: '/id' } })
    await expect(decodeInput(job('tuple'), ['v1', 'x'])).rejects.toMatchObject({ details: { path: '/1' } })
  })

  test('the output is checked at either end', async () => {
    const returns = defineJob('a.b', { output: schemas.object })
    expect(await checkOutput(returns, { id: 'v1' })).toEqual({ id: 'v1' })
    expect(await decodeOutput(returns, { id: 'v1' })).toEqual({ id: 'v1' })
    await expect(checkOutput(returns, { id: 1 })).rejects.toBeInstanceOf(InputError)
    await expect(decodeOutput(returns, undefined)).rejects.toBeInstanceOf(InputError)
  })
})

test('what is sent is what was given; what the handler gets is what the schema makes of it', async () => {
  const job = defineJob('a.b', { input: z.object({ at: z.string().transform((text) => new Date(text)) }) })
  const at = '2026-01-01T00:00:00.000Z'
  expect(await encodeInput(job, { at })).toEqual([{ at }])
  expect(await travel(job, { at })).toEqual({ at: new Date(at) })
})

test('a schema may take its time', async () => {
  const job = defineJob('a.b', { input: z.string().refine(async (text) => (await Promise.resolve(text)) !== 'no') })
  expect(await travel(job, 'yes')).toBe('yes')
  await expect(travel(job, 'no')).rejects.toBeInstanceOf(InputError)
})

test('a list that the schema also takes without its brackets is refused: the handler could not tell what was sent', async () => {
  const either = defineJob('a.b', { input: z.union([z.string(), z.array(z.string())]) })
  expect(await travel(either, 'a')).toBe('a')
  expect(await travel(either, ['a', 'b'])).toEqual(['a', 'b'])
  await expect(travel(either, ['a'])).rejects.toThrow(/could not tell/)
})

test('without a schema the input is the list of arguments', async () => {
  const job = defineJob<[id: string, times: number]>('a.b')
  expect(await travel(job, ['x', 2])).toEqual(['x', 2])
})

test('nothing at all is an empty list', async () => {
  expect(await travel(defineJob('a.b', { input: z.undefined() }), undefined)).toBeUndefined()
})

test.each(['Video', 'a..b', '', 'a b', '1a', 'a'.repeat(256)])('%j is not a job type', (text) => {
  expect(() => defineJob(text)).toThrow(InputError)
})
