// What the scenarios of journeys share: a server that may call loopback, a service that is called, definitions in one line.
import { createServer } from 'node:http'
import { requestBytes } from '../lib/http-client.mjs'
import { startServer } from '../lib/processes.mjs'

export const serve = (node = []) => startServer({ flags: ['--allow-private-network'], node })

export async function deploy(pool, name, seconds, spec) {
  const definition = {
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name, version: '1.0.0' },
    spec: {
      execution: { maxDurationSec: seconds, onTimeout: { errorCode: 'TOO_LATE', reason: 'the time was up' } },
      lifecycle: { startMode: 'async' },
      ...spec,
    },
  }
  const { status, body } = await pool.request(requestBytes('PUT', `/api/v1/definitions/${name}`, definition))
  // 200: it is there already.
  if (status !== 201 && status !== 200)
    throw new Error(`${name} was not deployed: ${status} ${body.toString().slice(0, 500)}`)
}

export async function start(pool, name, context = {}, query = '') {
  const { status, body } = await pool.request(requestBytes('POST', `/api/v1/journeys/${name}/start${query}`, context))
  if (status !== 202) throw new Error(`a start of ${name} answered ${status}: ${body.toString().slice(0, 500)}`)
  return JSON.parse(body.toString()).journeyId
}

/** How a run ended, waited for. */
export async function outcomeOf(pool, id) {
  const { status, body } = await pool.request(
    requestBytes('GET', `/api/v1/journeys/${id}/result?wait=true&timeout=120`),
  )
  if (status !== 200) throw new Error(`run ${id} answered ${status}: ${body.toString().slice(0, 500)}`)
  return JSON.parse(body.toString())
}

/** A service on loopback; `hangs`: it takes calls and never answers, and notes when its callers hang up. */
export async function upstream(hangs) {
  const hungUpAt = []
  const open = { calls: 0 }
  const service = createServer((request, response) => {
    open.calls += 1
    request.resume()
    if (hangs) response.on('close', () => hungUpAt.push(Date.now()))
    else response.setHeader('content-type', 'application/json').end('{"fine":true}')
  })
  service.keepAliveTimeout = 60_000
  await new Promise((resolve) => service.listen({ port: 0, host: '127.0.0.1', backlog: 8_192 }, resolve))
  return {
    url: `http://127.0.0.1:${service.address().port}`,
    open,
    hungUpAt,
    close() {
      service.closeAllConnections()
      service.close()
    },
  }
}

export const call = (url, next) => ({
  type: 'task',
  task: { kind: 'httpCall:v1', method: 'GET', url, timeoutMs: 600_000, resultVar: 'answer' },
  next,
})
