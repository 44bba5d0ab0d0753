/** Webhooks of a real server, to real endpoints: signatures that verify, endpoints that misbehave, kill -9 in between. */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { afterEach, describe, expect, test } from 'vitest'
import { verifyWebhook } from '@curfew/sdk'
import { ServerProcess, temporaryDirectory, until } from './server-process.ts'

const SUBSCRIPTIONS = '/ojs/v1/webhooks/subscriptions'
const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

interface Arrived {
  readonly headers: Record<string, string>
  readonly body: string
}

class Endpoint {
  readonly arrived: Arrived[] = []
  react: (response: ServerResponse, count: number, request: IncomingMessage) => void = (response) => response.end('ok')
  url = ''

  static async open(): Promise<Endpoint> {
    const endpoint = new Endpoint()
    const server = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
      request.on('end', () => {
        endpoint.arrived.push({ headers: request.headers as Record<string, string>, body })
        endpoint.react(response, endpoint.arrived.length, request)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    open.push({
      close: () => {
        server.closeAllConnections()
        return new Promise((resolve) => server.close(resolve))
      },
    })
    endpoint.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/hook`
    return endpoint
  }
}

const MANUAL = ['--allow-private-network', '--conformance', '--clock', 'manual']

async function subscribe(
  server: ServerProcess,
  url: string,
  more: object = {},
): Promise<{ id: string; secret: string }> {
  const reply = await server.post(SUBSCRIPTIONS, { url, events: ['job.completed'], ...more })
  expect(reply.status, reply.text).toBe(201)
  return reply.body.subscription as { id: string; secret: string }
}

async function finish(server: ServerProcess): Promise<string> {
  const { body } = await server.post('/ojs/v1/jobs', { type: 'a.b', args: ['€', '\u2028'] })
  await server.post('/ojs/v1/workers/fetch', { queues: ['default'] })
  await server.post('/ojs/v1/workers/ack', { job_id: body.job.id, result: { text: 'ü €' } })
  return body.job.id as string
}

async function statusOf(server: ServerProcess, id: string): Promise<{ status: string; error?: { message: string } }> {
  const { body } = await server.get(`${SUBSCRIPTIONS}/${id}/deliveries`)
  return (body.deliveries[0] ?? { status: 'none' }) as { status: string }
}

const settled = (server: ServerProcess, id: string, wanted: string) =>
  until(`the delivery is ${wanted}`, async () => {
    const delivery = await statusOf(server, id)
    return delivery.status === wanted ? delivery : undefined
  })

/** The example that needs no SDK, as a program would have it. */
async function fromTheDocs(): Promise<(body: string, headers: Record<string, string>, secret: string) => boolean> {
  const page = readFileSync(fileURLToPath(new URL('../../docs/webhooks.md', import.meta.url)), 'utf8')
  const [code] = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block ?? '')
  const { outputText } = ts.transpileModule(code ?? '', {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  })
  const module = (await import(`data:text/javascript,${encodeURIComponent(outputText)}`)) as {
    isFromCurfew: (body: string, headers: Record<string, string>, secret: string) => boolean
  }
  return module.isFromCurfew
}

describe('a delivery', () => {
  test('verifies with the SDK, and with the lines of the documentation', async () => {
    const endpoint = await Endpoint.open()
    const server = await ServerProcess.start({ flags: ['--allow-private-network'] })
    const isFromCurfew = await fromTheDocs()
    for (const secret of [undefined, 'a secret of my own']) {
      const made = await subscribe(server, endpoint.url, secret === undefined ? {} : { secret })
      const key = secret ?? made.secret
      const job = await finish(server)
      const [arrived] = await until('it arrived', () =>
        endpoint.arrived.length > 0 ? endpoint.arrived.splice(0) : undefined,
      )
      const { headers, body } = arrived as Arrived
      expect(verifyWebhook(body, headers, key)).toMatchObject({
        type: 'job.completed',
        subject: job,
        data: { result: { text: 'ü €' } },
      })
      expect(isFromCurfew(body, headers, key)).toBe(true)
      expect(() => verifyWebhook(`${body} `, headers, key)).toThrow('cannot be trusted')
      expect(isFromCurfew(`${body} `, headers, key)).toBe(false)
      await server.call('DELETE', `${SUBSCRIPTIONS}/${made.id}`)
    }
    await server.stop()
  })

  test('is made again after a failure, and given up after a redirect', async () => {
    const endpoint = await Endpoint.open()
    const server = await ServerProcess.start({ flags: MANUAL })
    const { id } = await subscribe(server, endpoint.url)
    endpoint.react = (response, count) => response.writeHead(count === 1 ? 500 : 200).end()
    await finish(server)
    await settled(server, id, 'retrying')
    await server.post('/ojs/v1/admin/clock', { advance_ms: 30_000 })
    await settled(server, id, 'delivered')
    expect(new Set(endpoint.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    endpoint.react = (response) => response.writeHead(307, { Location: endpoint.url }).end()
    await finish(server)
    expect((await settled(server, id, 'dead')).error?.message).toContain('redirects are not followed')
    expect(endpoint.arrived).toHaveLength(3)
    await server.stop()
  })

  test('to an endpoint that drips is cut off in time, and an answer without end is not read to it', async () => {
    const endpoint = await Endpoint.open()
    const server = await ServerProcess.start({ flags: ['--allow-private-network'] })
    const { id } = await subscribe(server, endpoint.url, { timeout: 1 })
    endpoint.react = (response) => {
      const timer = setInterval(() => response.write('.'), 20)
      response.on('close', () => {
        clearInterval(timer)
      })
    }
    await finish(server)
    expect((await settled(server, id, 'retrying')).error?.message).toBe('no answer within 1 s')
    endpoint.react = (response) => {
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
        if (!response.destroyed) response.once('drain', more)
      }
      more()
    }
    await finish(server)
    await settled(server, id, 'delivered')
    await server.stop()
  })
})

describe('a server that is killed', () => {
  test('while it delivers, and right after an event, loses nothing', async () => {
    const endpoint = await Endpoint.open()
    const data = temporaryDirectory()
    let server = await ServerProcess.start({ data, flags: MANUAL })
    await subscribe(server, endpoint.url, { timeout: 1 })
    endpoint.react = () => {}
    const jobs = [await finish(server)]
    await until('it is being delivered', () => (endpoint.arrived.length > 0 ? true : undefined))
    jobs.push(await finish(server))
    await server.kill()
    endpoint.react = (response) => response.end('ok')
    server = await ServerProcess.start({ data, flags: MANUAL })
    await until('everything arrived', async () => {
      await server.post('/ojs/v1/admin/clock', { advance_ms: 60_000 })
      const subjects = new Set(endpoint.arrived.map(({ body }) => (JSON.parse(body) as { subject: string }).subject))
      const { body } = await server.get('/ojs/v1/webhooks/deliveries')
      const statuses = (body.deliveries as { status: string }[]).map(({ status }) => status)
      return jobs.every((job) => subjects.has(job)) && statuses.every((status) => status === 'delivered')
        ? true
        : undefined
    })
    const { body } = await server.get('/ojs/v1/webhooks/deliveries')
    expect(body.deliveries).toHaveLength(2)
    await server.stop()
  })

  test('by SIGTERM hands back what it was delivering, and is gone at once', async () => {
    const endpoint = await Endpoint.open()
    const data = temporaryDirectory()
    let server = await ServerProcess.start({ data, flags: ['--allow-private-network'] })
    const { id } = await subscribe(server, endpoint.url)
    endpoint.react = () => {}
    await finish(server)
    await until('it is being delivered', () => (endpoint.arrived.length > 0 ? true : undefined))
    expect((await server.stop()).code).toBe(0)
    endpoint.react = (response) => response.end('ok')
    server = await ServerProcess.start({ data, flags: ['--allow-private-network'] })
    await settled(server, id, 'delivered')
    await server.stop()
  })
})

describe('the private-network guard', () => {
  test('keeps deliveries and tests out of this machine, unless the flag allows it', async () => {
    const endpoint = await Endpoint.open()
    const server = await ServerProcess.start()
    expect((await server.post(SUBSCRIPTIONS, { url: endpoint.url, events: ['*'] })).status).toBe(422)
    for (const host of ['127.0.0.1', 'localhost', '2130706433', '[::1]']) {
      const url = endpoint.url.replace('http:', 'https:').replace('127.0.0.1', host)
      const { id } = await subscribe(server, url)
      expect((await server.post(`${SUBSCRIPTIONS}/${id}/test`)).body, host).toMatchObject({
        success: false,
        error: 'blocked by the private-network guard (--allow-private-network)',
      })
      await finish(server)
      expect((await settled(server, id, 'dead')).error?.message).toContain('blocked by the private-network guard')
      await server.call('DELETE', `${SUBSCRIPTIONS}/${id}`)
    }
    expect(endpoint.arrived).toHaveLength(0)
    await server.stop()
  })
})
