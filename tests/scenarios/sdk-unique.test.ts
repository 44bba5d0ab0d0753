/** Unique jobs and queues with a bound, as an application of the SDK meets them. */
import { expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import { Client, defineJob, entry, RequestError, type InProcessServer } from '@curfew/sdk'
import { idle, TestServer } from '../harness.ts'

const mail = defineJob<[to: string]>('mail.send', { unique: { onConflict: 'ignore' } })

async function open(around: (handler: InProcessServer['handler']) => InProcessServer['handler'] = (h) => h) {
  const server = await TestServer.open()
  const client = new Client({
    server: { handler: around(server.handler) },
    host: server.clock,
    random: seededRandom(11),
  })
  return { server, client }
}

test('the second call is answered with the first one’s job, alone, together and all or none', async () => {
  const { client } = await open()
  const first = await client.enqueue(mail, ['ada'])
  expect(first).not.toHaveProperty('deduplicated')
  expect(await client.enqueue(mail, ['ada'])).toMatchObject({ id: first.id, deduplicated: true })
  const together = await Promise.all(['ada', 'bob', 'bob'].map((to) => client.enqueue(mail, [to])))
  expect(together.map(({ deduplicated }) => deduplicated)).toEqual([true, undefined, true])
  const many = await client.enqueueMany([entry(mail, ['ada']), entry(mail, ['cy'])])
  expect(many.map(({ deduplicated }) => deduplicated)).toEqual([true, undefined])
})

test('or refused, with the id of the one that is there', async () => {
  const { client } = await open()
  const first = await client.enqueue(mail, ['ada'])
  const refused = client.enqueue(mail, ['ada'], { unique: true })
  await expect(refused).rejects.toThrow(RequestError)
  await expect(refused).rejects.toMatchObject({ code: 'duplicate', details: { existing_job_id: first.id } })
  expect(await client.enqueue(mail, ['ada'], { unique: false })).not.toHaveProperty('deduplicated')
})

test('a job whose answer got lost does not count as a duplicate of itself', async () => {
  let hasLost = false
  const { server, client } = await open((handler) => async (request) => {
    const answer = await handler(request)
    if (request.method !== 'POST' || hasLost) return answer
    hasLost = true
    throw new Error('the line went dead')
  })
  const enqueued = client.enqueue(mail, ['ada'], { unique: true })
  for (let turns = 0; turns < 20; turns += 1) await server.advance(500)
  expect(await enqueued).toMatchObject({ args: ['ada'], state: 'available' })
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(1)
})

test('an enqueue into a full queue is tried again while there is patience', async () => {
  const { server, client } = await open()
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { backpressure: { max_depth: 1 } })
  const running = await server.start()
  const enqueued = client.enqueue(mail, ['ada'])
  await idle()
  await server.ack(running.id)
  for (let turns = 0; turns < 10; turns += 1) await server.advance(500)
  expect((await enqueued).state).toBe('available')
})

test('a queue is drained and resumed', async () => {
  const { client } = await open()
  expect(await client.queues.drain('default')).toMatchObject({ status: 'draining', paused: false })
  expect(await client.queues.get('default')).toMatchObject({ status: 'draining', drained: true })
  await expect(client.enqueue(mail, ['ada'])).rejects.toMatchObject({ code: 'queue_paused' })
  expect((await client.queues.resume('default')).status).toBe('active')
})

test('dead letters are retried by their error', async () => {
  const { server, client } = await open()
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  for (const type of ['DbDown', 'BadInput']) {
    const { id } = await server.start({ retry })
    await server.nack(id, { type, message: 'x' })
  }
  expect(await client.deadLetter.retryMany({ errorType: 'DbDown' })).toMatchObject({ matched: 1, succeeded: 1 })
  expect(await client.deadLetter.retryMany({ until: new Date(0) })).toMatchObject({ matched: 0 })
})
