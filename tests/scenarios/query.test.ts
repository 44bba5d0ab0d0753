/** Query parameters: each route takes those it declares, read by their shapes; everything else is refused by name. */
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../packages/server/src/http/api/app.ts'
import { TestServer } from '../harness.ts'

const ID = '019b76da-a800-7000-8000-000000000001'
const urlOf = (path: string): string => path.replaceAll(/\/[:*]\w+/g, `/${ID}`)
const errorIn = (body: Record<string, unknown>): Record<string, unknown> => {
  const { error } = body as { error?: Record<string, unknown> }
  return error === undefined ? body : { ...(error['details'] as object), ...error }
}

describe('an unknown query parameter', () => {
  test('is refused on every route and every alias, before anything else happens', async () => {
    const server = await TestServer.open()
    const ways = ROUTES.flatMap(({ method, path, aliases = [] }) => [`${method} ${path}`, ...aliases])
    const other: string[] = []
    for (const way of ways) {
      const [method = '', path = ''] = way.split(' ')
      const { status, body } = await server.call(method, `${urlOf(path)}?surprise=1`, method === 'GET' ? undefined : {})
      const error = errorIn(body)
      // Calls for a definition take what the definition binds; without one there is nothing to compare with.
      const isBound = /\/(?:apis\/|start$|steps\/:stepId$)/.test(path)
      if (isBound ? status !== 404 : status !== 400 || error['field'] !== 'surprise')
        other.push(`${way} ${String(status)}`)
    }
    expect(other).toEqual([])
  })

  test('is refused with the nearest known name, and with all of them', async () => {
    const server = await TestServer.open()
    const { status, body } = await server.get('/ojs/v1/jobs?staet=active')
    expect([status, body['error']]).toMatchObject([
      400,
      {
        code: 'invalid_request',
        message: 'Unknown query parameter "staet". Did you mean state?',
        details: { field: 'staet', suggestion: 'state' },
      },
    ])
    expect(body['error'].details.allowed).toEqual(expect.arrayContaining(['queue', 'state', 'type', 'limit', 'cursor']))
  })

  test('far from every known name has no suggestion', async () => {
    const server = await TestServer.open()
    const { error } = (await server.get('/ojs/v1/jobs?zzzzzzzz=1')).body
    expect(error.details).not.toHaveProperty('suggestion')
    expect(error.message).toMatch(/^Unknown query parameter "zzzzzzzz"\. Known: .*queue/)
  })

  test('where none is taken, the answer says so', async () => {
    const server = await TestServer.open()
    const { error } = (await server.get('/ojs/v1/admin/stats?verbose=1')).body
    expect([error.message, error.details.allowed]).toEqual([
      'Unknown query parameter "verbose". This path takes no query parameters.',
      [],
    ])
  })

  test('under /api/v1 is refused as a problem', async () => {
    const server = await TestServer.open()
    const { status, headers, body } = await server.get('/api/v1/journeys?pageTokn=1')
    expect([status, headers['Content-Type']]).toEqual([400, 'application/problem+json'])
    expect(body).toMatchObject({ field: 'pageTokn', suggestion: 'pageToken', code: 'invalid_request' })
  })

  test('changes nothing', async () => {
    const server = await TestServer.open()
    const id = await server.enqueue()
    expect((await server.call('DELETE', `/ojs/v1/jobs/${id}?force=true`)).status).toBe(400)
    expect((await server.post('/ojs/v1/jobs?dry_run=true', { type: 'a', args: [] })).status).toBe(400)
    expect((await server.job(id)).state).toBe('available')
    expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(1)
  })
})

describe('a known query parameter', () => {
  test.each([
    ['/ojs/v1/jobs?queue=Not+A+Queue', 'queue'],
    ['/ojs/v1/jobs?state=sleeping', 'state'],
    ['/ojs/v1/jobs?limit=ten', 'limit'],
    ['/ojs/v1/jobs?limit=1e1', 'limit'],
    ['/ojs/v1/jobs?cursor=x', 'cursor'],
    [`/ojs/v1/jobs/${ID}/result?wait=yes`, 'wait'],
    [`/ojs/v1/workflows/${ID}?wait=1`, 'wait'],
    [`/api/v1/journeys/${ID}/result?wait=maybe`, 'wait'],
    ['/ojs/v1/cron?enabled=on', 'enabled'],
    ['/ojs/v1/webhooks/deliveries?status=lost', 'status'],
    ['/api/v1/definitions?pageToken=NOT%20ONE', 'pageToken'],
  ])('of the wrong form is refused: %s', async (url, field) => {
    const server = await TestServer.open()
    const { status, body } = await server.get(url)
    expect([status, errorIn(body)['field']]).toEqual([400, field])
  })

  test('given twice is refused, in whatever spelling', async () => {
    const server = await TestServer.open()
    for (const url of ['/ojs/v1/jobs?state=active&state=completed', '/ojs/v1/jobs?limit=1&lim%69t=1']) {
      const { status, body } = await server.get(url)
      expect([status, body['error'].message]).toEqual([
        400,
        expect.stringMatching(/^(state|limit) is given 2 times; send it once\.$/),
      ])
    }
  })

  test('without a value counts as left out', async () => {
    const server = await TestServer.open()
    await server.enqueue()
    for (const url of ['/ojs/v1/jobs?limit=&cursor=', '/ojs/v1/jobs?offset&limit', '/ojs/v1/jobs?&'])
      expect((await server.get(url)).body.pagination).toMatchObject({ total: 1, limit: 50 })
  })

  test('that is a filter needs a value: left out in silence, it would choose everything', async () => {
    const server = await TestServer.open()
    for (const name of ['state', 'queue', 'tag', 'worker', 'error_type']) {
      const { status, body } = await server.get(`/ojs/v1/jobs?${name}=`)
      expect([status, errorIn(body)['field']]).toEqual([400, name])
    }
  })

  test('above the largest page counts as the largest page', async () => {
    const server = await TestServer.open()
    expect((await server.get('/ojs/v1/jobs?limit=99999999999999999999')).body.pagination.limit).toBe(200)
  })

  test('that lists values takes them separated by commas', async () => {
    const server = await TestServer.open()
    await server.enqueue({ queue: 'a' })
    await server.enqueue({ queue: 'b' })
    await server.enqueue({ queue: 'c' })
    const { events } = (await server.get('/ojs/v1/events?queues=a,%20b,&types=job.enqueued')).body
    expect(events.map(({ data }) => data.queue as string)).toEqual(['a', 'b'])
  })
})

describe('what a definition binds', () => {
  const definition = (kind: 'Journey' | 'Api'): string => `
apiVersion: v1
kind: ${kind}
metadata: { name: quote, version: 1.0.0 }
spec:
  bindings: { http: { start: { queryToContext: { currency: currency } } } }
  start: done
  states:
    done: { type: succeed }
`

  test.each([
    ['Journey', '/api/v1/journeys/quote/start'],
    ['Api', '/api/v1/apis/quote'],
  ] as const)('is taken by its %s, and nothing else', async (kind, url) => {
    const server = await TestServer.open()
    const put = { 'content-type': 'application/yaml' }
    const deployed = await server.call('PUT', '/api/v1/definitions/quote', definition(kind), put)
    expect([deployed.status, deployed.text]).toEqual([201, expect.anything()])
    expect((await server.post(`${url}?currency=EUR`, {})).status).toBe(200)
    const { status, body } = await server.post(`${url}?curency=EUR`, {})
    expect([status, body]).toMatchObject([400, { field: 'curency', suggestion: 'currency' }])
    // Runs of an Api are not listed.
    expect((await server.get('/api/v1/journeys')).body.items).toHaveLength(kind === 'Journey' ? 1 : 0)
    await server.close()
  })
})
