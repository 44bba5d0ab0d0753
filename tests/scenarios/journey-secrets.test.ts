/** Secrets that calls are made with: they are sent, and appear nowhere else. */
import { afterEach, expect, test } from 'vitest'
import { idle, TestServer } from '../harness.ts'
import { begin, call, deploy, runUrl, succeed, Upstream } from '../journey-stage.ts'

const SECRET = 'tr0ub4dor-and-3'
let server: TestServer
let upstream: Upstream

afterEach(() => server.close())

async function open(secrets: Record<string, string>): Promise<void> {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send, secrets })
}

const policies = {
  httpClientAuth: { definitions: { backend: { kind: 'bearerStatic', tokenRef: 'secret://shop/token' } } },
}

test.each([
  ['a secret of its own', { secretRef: 'shop/token' }],
  ['a policy', { policyRef: 'backend' }],
])('a call with %s sends it, and nothing that the server shows has it', async (_, auth) => {
  await open({ 'shop/token': SECRET })
  const states = { ask: call({ auth }), done: succeed }
  await deploy(server, { lifecycle: { startMode: 'async' }, policies, start: 'ask', states })
  const { body } = await begin(server, {})
  const id = String(body['journeyId'])
  await idle()
  expect(upstream.calls[0]?.headers).toMatchObject({ authorization: `Bearer ${SECRET}` })
  await upstream.answer({ youSent: `Bearer ${SECRET}`, price: 7 })
  const outcome = await server.get(`${runUrl(id)}/result`)
  expect(outcome.body).toMatchObject({
    phase: 'SUCCEEDED',
    output: { answer: { ok: true, body: { youSent: 'Bearer [secret]', price: 7 } } },
  })
  const shown = [outcome.text, JSON.stringify(server.logged)]
  for (const path of [
    '/api/v1/definitions/story',
    '/api/v1/definitions/story?version=1.0.0',
    runUrl(id),
    `${runUrl(id)}/explain`,
    `${runUrl(id)}/history`,
    `/journeys/${id}`,
    '/api/v1/journeys',
    '/ojs/v1/events',
    '/metrics',
  ]) {
    const { status, text } = await server.get(path)
    expect([path, status]).toEqual([path, 200])
    shown.push(text)
  }
  for (const text of shown) expect(text).not.toContain(SECRET)
})

test('a call with a secret that the server does not know fails, and says which', async () => {
  await open({})
  await deploy(server, { start: 'ask', states: { ask: call({ auth: { secretRef: 'shop/token' } }), done: succeed } })
  const { body } = await begin(server, {})
  expect(upstream.calls).toEqual([])
  expect(body).toMatchObject({
    phase: 'SUCCEEDED',
    output: { answer: { ok: false, error: { message: expect.stringContaining('CURFEW_SECRET_SHOP_TOKEN') } } },
  })
})
