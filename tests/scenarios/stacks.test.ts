/** x_stacks: a worker tells where a handler is stuck, and the failure shows it if the server ends that attempt. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const STACK = ['at spin (job.js:3:9)', 'at run (job.js:9:1)']

async function stuck(limits: object, stacks?: Record<string, unknown>, lease = 1) {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ retry: { jitter: false }, ...limits }, { worker_id: 'w' })
  const beat = (more: Record<string, unknown> = {}) =>
    server.beat('w', [id], { x_leases: { [id]: lease }, x_stacks: stacks ?? { [id]: STACK }, ...more })
  return { server, id, beat }
}

test.each([
  ['timeout', { timeout: 10, grace_period: 0 }],
  ['total_timeout', { total_timeout: 10 }],
])('an attempt that ends by its %s shows where its handler was stuck', async (type, limits) => {
  const { server, id, beat } = await stuck(limits)
  expect((await beat()).status).toBe(200)
  await server.advance(10_000)
  expect((await server.job(id)).errors.at(-1)).toMatchObject({ type, backtrace: STACK })
})

test('a stack belongs to its attempt: the next one has none', async () => {
  const { server, id, beat } = await stuck({ timeout: 10, grace_period: 0 })
  await beat()
  await server.advance(11_000)
  await server.fetch({ worker_id: 'w' })
  await beat()
  await server.advance(10_000)
  const { errors } = await server.job(id)
  expect(errors).toMatchObject([{ backtrace: STACK }, { type: 'timeout' }])
  expect(errors[1]).not.toHaveProperty('backtrace')
})

test('other endings do not show it', async () => {
  const { server, id, beat } = await stuck({ heartbeat_timeout: 10 })
  await beat()
  await server.advance(10_000)
  expect((await server.job(id)).errors[0]).not.toHaveProperty('backtrace')
})

test('a stack for another lease, a job that is not listed, or by a late beat, is not kept', async () => {
  const { server, id, beat } = await stuck({ timeout: 10, grace_period: 0 }, undefined, 2)
  await beat()
  await server.beat('w', [], { x_leases: {}, x_stacks: { [id]: STACK }, seq: 9 })
  await server.beat('w', [id], { x_leases: { [id]: 1 }, x_stacks: { [id]: STACK }, seq: 8 })
  await server.beat('v', [id], { x_leases: { [id]: 1 }, x_stacks: { [id]: STACK } })
  await server.advance(10_000)
  expect((await server.job(id)).errors[0]).not.toHaveProperty('backtrace')
})

test('the latest stack counts, as far as it has 50 lines of 500 characters', async () => {
  const { server, id, beat } = await stuck({ timeout: 10, grace_period: 0 })
  await beat()
  const long = Array.from({ length: 60 }, () => 'x'.repeat(600))
  await beat({ x_stacks: { [id]: long } })
  await server.advance(10_000)
  const [error] = (await server.job(id)).errors as unknown as [{ backtrace: string[] }]
  expect(error.backtrace).toEqual(long.slice(0, 50).map((line) => line.slice(0, 500)))
})

test('the same stack told again does not write the job again', async () => {
  const { server, id, beat } = await stuck({ timeout: 100 })
  await beat()
  const before = (await server.store.job(id))?.version
  await server.advance(1_000)
  await beat()
  expect((await server.store.job(id))?.version).toBe(before)
})
