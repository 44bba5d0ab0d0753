/** What an operator asks of a worker, and that terminate cannot be taken back. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const direct = (server: TestServer, word: string, id = 'w') => server.post(`/ojs/v1/admin/workers/${id}/${word}`)

test('the answer to every beat says quiet, which stops fetching, and resume lifts it', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const id = await server.enqueue()
  expect((await direct(server, 'quiet')).body).toEqual({ worker_id: 'w', directive: 'quiet', state: 'running' })
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toEqual([])
  expect((await server.beat('w', [])).body).toMatchObject({ state: 'quiet', directive: 'quiet' })
  expect((await direct(server, 'resume')).body).toEqual({ worker_id: 'w', directive: 'continue', state: 'running' })
  expect((await server.beat('w', [])).body).toMatchObject({ state: 'running', directive: 'continue' })
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toMatchObject([{ id }])
})

test('a worker that reports quiet gets resume, until it has reported running', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const id = await server.enqueue()
  await direct(server, 'quiet')
  await server.beat('w', [], { state: 'quiet' })
  expect((await direct(server, 'resume')).body).toEqual({ worker_id: 'w', directive: 'continue', state: 'quiet' })
  for (let beat = 0; beat < 3; beat += 1) {
    const reply = await server.beat('w', [], { state: 'quiet' })
    expect(reply.body).toMatchObject({ state: 'running', directive: 'continue' })
    expect((await server.fetch({ worker_id: 'w' })).body.jobs).toEqual([])
  }
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ state: 'quiet', directive: 'continue' })
  expect((await server.beat('w', [])).body.state).toBe('running')
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toMatchObject([{ id }])
  expect((await server.beat('w', [], { state: 'quiet' })).body.state).toBe('quiet')
})

test('a worker that obeys quiet only after the resume gets the order to run again', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await direct(server, 'quiet')
  expect((await server.beat('w', [])).body.state).toBe('quiet')
  await direct(server, 'resume')
  expect((await server.beat('w', [], { state: 'drain' })).body).toMatchObject({ state: 'running' })
  await server.register('w')
  expect((await server.beat('w', [], { state: 'quiet' })).body.state).toBe('running')
})

test('resume runs a worker that went quiet by itself; one that terminates is not pushed back', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.beat('w', [], { state: 'quiet' })
  await direct(server, 'resume')
  expect((await server.beat('w', [], { state: 'quiet' })).body.state).toBe('running')
  expect((await server.beat('w', [], { state: 'terminate' })).body.state).toBe('terminate')
})

test('a later quiet or terminate replaces a resume that was not obeyed yet', async () => {
  for (const word of ['quiet', 'terminate']) {
    const server = await TestServer.open()
    await server.register('w')
    await server.beat('w', [], { state: 'quiet' })
    await direct(server, 'resume')
    expect((await direct(server, word)).body.directive).toBe(word)
    expect((await server.beat('w', [], { state: 'quiet' })).body.state).toBe(word)
  }
})

test('resume for a worker that was never quieted leaves its own quiet alone', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await direct(server, 'resume')
  await server.beat('w', [])
  expect((await server.beat('w', [], { state: 'quiet' })).body.state).toBe('quiet')
})

test('a worker told to terminate keeps being told, whatever it reports', async () => {
  const server = await TestServer.open()
  await server.register('w')
  expect((await direct(server, 'terminate')).body.directive).toBe('terminate')
  for (const state of ['running', 'quiet', 'terminate', 'drain', 'running']) {
    expect((await server.beat('w', [], { state })).body).toMatchObject({ state: 'terminate', directive: 'terminate' })
  }
  await server.register('w')
  expect((await server.beat('w', [])).body.state).toBe('terminate')
})

test.each(['quiet', 'resume'])('%s after terminate, sent or reported, is a conflict', async (word) => {
  const server = await TestServer.open()
  await server.register('told')
  await server.register('reported')
  await direct(server, 'terminate', 'told')
  await server.beat('reported', [], { state: 'terminate' })
  for (const id of ['told', 'reported']) {
    const reply = await direct(server, word, id)
    expect([reply.status, reply.body.error.code]).toEqual([409, 'conflict'])
  }
  expect((await direct(server, 'terminate', 'told')).status).toBe(200)
})

test('directives for an unknown or dead worker are not found', async () => {
  const server = await TestServer.open()
  expect((await direct(server, 'quiet', 'unknown')).status).toBe(404)
  await server.register('w')
  await server.advance(30_000)
  expect((await direct(server, 'terminate')).status).toBe(404)
})

test('a quiet worker keeps its jobs and may finish them', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await direct(server, 'quiet')
  await server.advance(20_000)
  expect((await server.beat('w', [id], { state: 'quiet' })).body.jobs_extended).toEqual([id])
  expect((await server.ack(id, { worker_id: 'w' })).status).toBe(200)
})

test('only a stale record can be removed by an operator', async () => {
  const server = await TestServer.open()
  const remove = (id: string) => server.call('DELETE', `/ojs/v1/admin/workers/${id}`)
  await server.register('alive')
  expect((await remove('alive')).status).toBe(409)
  await server.start({}, { worker_id: 'busy' })
  expect((await remove('busy')).status).toBe(409)
  await server.fetch({ worker_id: 'stranger' })
  expect((await remove('stranger')).status).toBe(200)
  await server.advance(30_000)
  expect((await remove('alive')).status).toBe(200)
  expect((await server.get('/ojs/v1/workers/alive/health')).status).toBe(404)
  expect((await remove('alive')).status).toBe(404)
})
