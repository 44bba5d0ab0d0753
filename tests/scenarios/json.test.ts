/** JSON as it was written: numbers, strings, depth and names that other programs stumble over. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

/** A value inside so many arrays. */
const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)

const EXACT = [
  '12345678901234567890',
  '1.0',
  '-0',
  '1e400',
  '0.1000000000000000055511151231257827',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u00e9 é \u{1f600}"',
  '{"__proto__":{"polluted":true},"constructor":1,"hasOwnProperty":2,"toString":3}',
  '{"b":1,"a":2,"1":3}',
  '[ 1 , 2 ]',
]

test.each(EXACT)('%s comes back byte for byte from every place', async (text) => {
  const server = await TestServer.open()
  const body = `{"type":"a","args":[${text}],"meta":{"m":${text}},"x_own":${text}}`
  const created = await server.post('/ojs/v1/jobs', body)
  expect(created.status).toBe(201)
  const id = created.body.job.id
  const read = await server.get(`/ojs/v1/jobs/${id}`)
  const fetched = await server.fetch()
  for (const reply of [created, read, fetched]) {
    expect(reply.text).toContain(`"args":[${text}]`)
    expect(reply.text).toContain(`"meta":{"m":${text}}`)
    expect(reply.text).toContain(`"x_own":${text}`)
  }
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, `{"data":${text}}`)
  expect((await server.get(`/ojs/v1/jobs/${id}/progress`)).text).toContain(`"data":${text}`)
  await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, `{"state":${text}}`)
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).text).toContain(`"state":${text}`)
  const acked = await server.post('/ojs/v1/workers/ack', `{"job_id":"${id}","result":${text}}`)
  expect(acked.text).toContain(`"result":${text}`)
  expect((await server.get(`/ojs/v1/jobs/${id}/result`)).text).toContain(`"result":${text}`)
})

test('numbers in meta are kept even when metadata is merged under it', async () => {
  const server = await TestServer.open()
  const body = '{"type":"a","args":[],"meta":{"n":12345678901234567890},"options":{"metadata":{"m":1.0}}}'
  const { text } = await server.post('/ojs/v1/jobs', body)
  expect(text).toContain('12345678901234567890')
  expect(text).toContain('1.0')
})

test('numbers in the details of an error are kept', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const details = '{"n":12345678901234567890}'
  await server.post('/ojs/v1/workers/nack', `{"job_id":"${id}","error":{"message":"x","details":${details}}}`)
  expect((await server.get(`/ojs/v1/jobs/${id}`)).text).toContain(`"details":${details}`)
})

test('a result stands in its event as it was written', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.post('/ojs/v1/workers/ack', `{"job_id":"${id}","result":12345678901234567890}`)
  expect((await server.get('/ojs/v1/events')).text).toContain('"result":12345678901234567890')
})

test('strings that servers stumble over are kept in names and messages', async () => {
  const server = await TestServer.open()
  const worker = 'w\ud800 é\u{1f600}'
  const message = 'nul \u0000, half \udc00, line\nbreak'
  const { id } = await server.start({}, { worker_id: worker })
  expect((await server.job(id)).worker_id).toBe(worker)
  await server.beat(worker, [id])
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { message })
  expect((await server.get(`/ojs/v1/jobs/${id}/progress`)).body.message).toBe(message)
  await server.nack(id, { message, type: message }, { worker_id: worker })
  expect((await server.job(id)).error).toMatchObject({ message, type: message })
  expect((await server.get('/ojs/v1/workers')).body.workers[0].worker_id).toBe(worker)
})

test('64 levels are taken, the body itself being the first; 65 are not', async () => {
  const server = await TestServer.open()
  const body = (depth: number): string => `{"type":"a","args":${nested(depth - 1)}}`
  expect((await server.post('/ojs/v1/jobs', body(64))).status).toBe(201)
  const reply = await server.post('/ojs/v1/jobs', body(65))
  expect([reply.status, reply.body.error.code]).toEqual([400, 'invalid_payload'])
  expect((await server.post('/ojs/v1/jobs', body(100_000))).status).toBe(400)
})

test('brackets in strings are no depth', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: ['['.repeat(500), '"\\['.repeat(100)] })
  expect(reply.status).toBe(201)
})

test.each(['', ' ', '{', 'nope', '{"a":1,}', '\u0000', "{'a':1}"])('%j is not a JSON body', async (text) => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', text)
  expect([reply.status, reply.body.error.code]).toEqual([400, 'invalid_payload'])
})

test.each(['[]', '1', '"x"', 'true', 'null'])('a body that is %s is refused: it is not an object', async (text) => {
  const server = await TestServer.open()
  expect((await server.post('/ojs/v1/jobs', text)).status).toBe(400)
  expect((await server.post('/ojs/v1/workers/ack', text)).status).toBe(400)
  expect((await server.post('/ojs/v1/workers/heartbeat', text)).status).toBe(400)
})

test('of a repeated key the last counts, and it is echoed once', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', '{"type":"a","args":[],"x_own":1,"x_own":2,"timeout":5,"timeout":6}')
  expect(reply.body.job).toMatchObject({ x_own: 2, timeout: 6 })
  // Once under `job`, and once beside it.
  expect(reply.text.split('"x_own"')).toHaveLength(3)
})

test('a key written with escapes is the key it means', async () => {
  const server = await TestServer.open()
  const reply = await server.post(
    '/ojs/v1/jobs',
    '{"\\u0074ype":"a","args":[],"st\\u0061te":"completed","x_\\u0061":1}',
  )
  expect(reply.body.job).toMatchObject({ type: 'a', state: 'available', x_a: 1 })
})

test('unknown fields named like members of every object are data', async () => {
  const server = await TestServer.open()
  const own = '"__proto__":{"timeout":1},"constructor":{"x":1},"hasOwnProperty":1,"toString":2'
  const reply = await server.post('/ojs/v1/jobs', `{"type":"a","args":[],${own}}`)
  expect(reply.status).toBe(201)
  expect(reply.text).toContain('"__proto__":{"timeout":1}')
  expect(reply.body.job.x_limits.sources.timeout).toBe('default')
  const options = '{"type":"a","args":[],"options":{"__proto__":{"queue":"evil"}}}'
  expect((await server.post('/ojs/v1/jobs', options)).body.job.queue).toBe('default')
  const leases = '{"worker_id":"w","x_leases":{"__proto__":1}}'
  expect((await server.post('/ojs/v1/workers/heartbeat', leases)).status).toBe(200)
  const handlers = { worker_id: 'w', hostname: 'h', pid: 1, queues: ['a'], concurrency: 1 }
  const text = JSON.stringify(handlers).replace(/}$/, ',"handlers":{"constructor":{"timeout":5}}}')
  expect((await server.post('/ojs/v1/workers/register', text)).status).toBe(200)
  const source = async (worker: string): Promise<string> =>
    (await server.start({ type: 'constructor', queue: worker }, { worker_id: worker })).x_limits.sources
      .timeout as string
  expect(await source('w')).toBe('handler')
  expect(await source('v')).toBe('default')
})
