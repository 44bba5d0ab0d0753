/** The result of a job: at once, or by waiting for it. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

test('a job that is not over has a state only; one that is has its result or its error', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false, max_attempts: 2 } })
  const result = async (job = id) => (await server.get(`/ojs/v1/jobs/${job}/result`)).body as unknown
  expect(await result()).toEqual({ job_id: id, state: 'active' })
  await server.nack(id)
  expect(await result()).toEqual({ job_id: id, state: 'retryable' })
  await server.advance(1_000)
  await server.fetch()
  await server.nack(id)
  expect(await result()).toMatchObject({ job_id: id, state: 'discarded', error: { message: 'boom' } })
  const good = await server.start()
  await server.ack(good.id, { result: [1] })
  expect(await result(good.id)).toEqual({ job_id: good.id, state: 'completed', result: [1] })
  expect((await server.get('/ojs/v1/jobs/nope/result')).status).toBe(404)
})

test('a wait ends with the job', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const waiting = server.get(`/ojs/v1/jobs/${id}/result?wait=true&timeout=20`)
  await server.advance(5_000)
  await server.ack(id, { result: 'done' })
  expect(await waiting).toMatchObject({ status: 200, body: { state: 'completed', result: 'done' } })
})

test('a wait ends when a deadline ends the job', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ total_timeout: 5 })
  const waiting = server.get(`/ojs/v1/jobs/${id}/result?wait=true`)
  await server.advance(5_000)
  expect((await waiting).body).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
})

test.each([
  ['&timeout=3', 3_000],
  ['', 30_000],
])('a wait that is over before the job%s is a 408', async (query, ms) => {
  const server = await TestServer.open()
  const { id } = await server.start()
  let status = 0
  const waiting = server.get(`/ojs/v1/jobs/${id}/result?wait=true${query}`).then((reply) => (status = reply.status))
  await server.advance(ms - 1)
  expect(status).toBe(0)
  await server.advance(1)
  await waiting
  expect(status).toBe(408)
})

test('a job that is over is answered at once, wait or not', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.ack(id)
  expect((await server.get(`/ojs/v1/jobs/${id}/result?wait=true`)).status).toBe(200)
})

test('a wait that the end of the server cuts short is a 503 with Retry-After, and so is one that begins then', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const wait = () => server.get(`/ojs/v1/jobs/${id}/result?wait=true&timeout=20`)
  const waiting = wait()
  await server.advance(600)
  server.engine.beginClose()
  const cutShort = {
    status: 503,
    headers: { 'Retry-After': '1' },
    body: { error: { code: 'unavailable', retryable: true, details: { job_id: id, state: 'active' } } },
  }
  expect(await waiting).toMatchObject(cutShort)
  expect(await wait()).toMatchObject(cutShort)
  expect((await server.get(`/ojs/v1/jobs/${id}/result`)).status).toBe(200)
})
