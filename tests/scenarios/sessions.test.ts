/** A browser signs in with a token and is known by a cookie from then on. */
import { expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

const ADMIN = { authorization: 'Bearer secret' }
const PAGE = { host: 'curfew.example', 'sec-fetch-site': 'same-origin', 'x-curfew-request': '1' }

async function signedIn(
  server: TestServer,
  token = 'secret',
  more: Record<string, string> = {},
): Promise<{ cookie: string; reply: Reply }> {
  const headers = { authorization: `Bearer ${token}`, ...more }
  const reply = await server.call('POST', '/api/v1/session', undefined, headers)
  expect(reply.status).toBe(200)
  return { cookie: (reply.headers['Set-Cookie'] ?? '').split(';')[0] ?? '', reply }
}

async function create(server: TestServer, name: string, ...roles: string[]): Promise<string> {
  return (await server.call('POST', '/api/v1/tokens', { name, roles }, ADMIN)).body['token'] as string
}

test('a page signs in, is known, and signs out', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const before = await server.get('/api/v1/session')
  expect([before.status, before.body]).toEqual([
    200,
    { authenticated: false, token_required: true, name: null, roles: [], via: null, expires_at: null },
  ])
  const { cookie, reply } = await signedIn(server, await create(server, 'ada', 'operate'))
  expect(reply.headers['Set-Cookie']).toMatch(
    /^curfew_session=[\w.-]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  )
  expect(reply.headers['Cache-Control']).toBe('no-store')
  expect((await server.get('/api/v1/session', { cookie })).body).toEqual({
    authenticated: true,
    token_required: true,
    name: 'ada',
    roles: ['read', 'operate'],
    via: 'session',
    expires_at: '2026-01-02T00:00:00.000Z',
  })
  expect((await server.get('/ojs/v1/queues', { cookie: `theme=dark; ${cookie}; a=b` })).status).toBe(200)
  const out = await server.call('DELETE', '/api/v1/session', undefined, { ...PAGE, cookie })
  expect([out.status, out.headers['Set-Cookie']]).toEqual([
    204,
    'curfew_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
  ])
})

test('a server without tokens asks for none', async () => {
  const server = await TestServer.open()
  const open = { authenticated: false, token_required: false, name: null, via: 'open' }
  expect((await server.get('/api/v1/session')).body).toMatchObject({
    ...open,
    roles: ['read', 'produce', 'work', 'operate', 'admin'],
  })
  const reply = await server.post('/api/v1/session')
  expect([reply.status, reply.headers['Set-Cookie']]).toEqual([200, undefined])
})

test('a session has the roles of its token, and changes by it are written down', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(server, await create(server, 'ada', 'operate'))
  const page = { ...PAGE, cookie }
  expect((await server.call('POST', '/ojs/v1/queues/mail/pause', undefined, page)).status).toBe(200)
  expect((await server.call('POST', '/api/v1/tokens', { name: 'x', roles: ['admin'] }, page)).status).toBe(403)
  const [newest] = (await server.get('/api/v1/audit', { cookie })).body.items
  expect(newest).toMatchObject({ token: 'ada', via: 'session', path: '/ojs/v1/queues/mail/pause' })
})

test('a change with a session is refused to pages of other origins, and without a header of its own', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(server)
  const before = (await server.get('/ojs/v1/events', ADMIN)).text
  const pages: readonly Record<string, string>[] = [
    { host: 'curfew.example' },
    { ...PAGE, 'x-curfew-request': '' },
    { ...PAGE, 'sec-fetch-site': 'cross-site' },
    { ...PAGE, 'sec-fetch-site': 'same-site' },
    { host: 'curfew.example', 'x-curfew-request': '1', origin: 'https://evil.test' },
    { host: 'curfew.example', 'x-curfew-request': '1', origin: 'null' },
  ]
  for (const headers of pages) {
    for (const [method, url] of [
      ['POST', '/ojs/v1/queues/mail/pause'],
      ['DELETE', '/api/v1/session'],
      ['POST', '/api/v1/tokens'],
      ['PUT', '/nowhere'],
    ] as const) {
      const reply = await server.call(method, url, undefined, { ...headers, cookie })
      expect([headers, url, reply.status]).toEqual([headers, url, 403])
    }
    expect((await server.get('/ojs/v1/queues', { ...headers, cookie })).status).toBe(200)
  }
  expect((await server.get('/ojs/v1/events', ADMIN)).text).toBe(before)
  expect((await server.call('POST', '/ojs/v1/queues/mail/pause', undefined, { ...PAGE, cookie })).status).toBe(200)
})

test('a session ends after 12 hours, and not before', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(server)
  await server.advance(12 * 3_600_000 - 1)
  expect((await server.get('/ojs/v1/queues', { cookie })).status).toBe(200)
  await server.advance(1)
  const reply = await server.get('/ojs/v1/queues', { cookie })
  expect([reply.status, reply.body.error.message]).toEqual([401, 'The session has ended.'])
  expect((await server.get('/api/v1/session', { cookie })).body['authenticated']).toBe(false)
})

test('a session ends with its token: revoked, or rotated and out of its overlap', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const revoked = await signedIn(server, await create(server, 'ada', 'read'))
  const rotated = await signedIn(server, await create(server, 'bob', 'read'))
  const status = async ({ cookie }: { cookie: string }): Promise<number> =>
    (await server.get('/ojs/v1/queues', { cookie })).status
  expect([await status(revoked), await status(rotated)]).toEqual([200, 200])
  await server.call('DELETE', '/api/v1/tokens/ada', undefined, ADMIN)
  await server.call('POST', '/api/v1/tokens/bob/rotate', { overlap_ms: 1_000 }, ADMIN)
  expect([await status(revoked), await status(rotated)]).toEqual([401, 200])
  await server.advance(1_000)
  expect(await status(rotated)).toBe(401)
})

test('any server with the same tokens takes the session of another', async () => {
  const first = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(first)
  const second = await TestServer.open({ token: 'secret' })
  const other = await TestServer.open({ token: 'other' })
  expect((await second.get('/ojs/v1/queues', { cookie })).status).toBe(200)
  expect((await other.get('/ojs/v1/queues', { cookie })).status).toBe(401)
})

test('no sign of a session can be changed: not its token, its end, its proof or its signature', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(server, await create(server, 'ada', 'read'))
  const [name, value = ''] = cookie.split('=')
  const admitted: string[] = []
  for (let at = 0; at < value.length; at += 1) {
    const other = value[at] === 'a' ? 'b' : 'a'
    // The last sign of 32 bytes in base64 stands for four bits: some others mean the same bytes.
    const isLastOfGroup =
      at === value.length - 1 || (value[at + 1] === '.' && value.slice(0, at).split('.').length === 3)
    if (isLastOfGroup) continue
    const forged = `${value.slice(0, at)}${other}${value.slice(at + 1)}`
    if ((await server.get('/ojs/v1/queues', { cookie: `${name ?? ''}=${forged}` })).status !== 401)
      admitted.push(forged)
  }
  expect(admitted).toEqual([])
})

test('what the store holds does not make a session', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const token = await create(server, 'ada', 'admin')
  const { createHmac } = await import('node:crypto')
  const [doc] = await server.store.docs('token', '', null, 1)
  const { secrets } = JSON.parse(doc?.body ?? '{}') as { secrets: { id: string; hash: string; proofHash: string }[] }
  const { id = '', hash = '', proofHash = '' } = secrets[0] ?? {}
  const forge = (proof: Buffer): string => {
    const signed = `${id}.${(server.clock.now() + 1_000_000).toString(36)}.${proof.toString('base64url')}`
    const key = Buffer.from(hash, 'hex')
    const signature = createHmac('sha256', key).update(`curfew session ${signed}`).digest('base64url')
    return `curfew_session=${signed}.${signature}`
  }
  const status = async (cookie: string): Promise<number> => (await server.get('/ojs/v1/queues', { cookie })).status
  expect(await status(forge(Buffer.from(proofHash, 'hex')))).toBe(401)
  expect(await status(forge(Buffer.from(hash, 'hex')))).toBe(401)
  // With the token itself the same way leads to a session: the forgery fails by the proof alone.
  const proof = createHmac('sha256', token).update('curfew session proof').digest()
  expect(await status(forge(proof))).toBe(200)
})

const HOSTILE: readonly (readonly [string, string])[] = [
  ['no value', 'curfew_session='],
  ['no equals sign', 'curfew_session'],
  ['bytes of every kind', 'curfew_session=\u0000"<>;;;=;'],
  ['a long value', `curfew_session=${'a.'.repeat(7_000)}`],
  ['many cookies', 'a=b; '.repeat(3_000)],
  ['the form of a session', `curfew_session=command-line.zzzzzzzz.${'A'.repeat(43)}.${'A'.repeat(43)}`],
  ['an end that is not a number', `curfew_session=command-line.....${'A'.repeat(43)}.${'A'.repeat(43)}`],
  ['the token itself', 'curfew_session=secret'],
]

test('cookies of every kind are refused with 401', async () => {
  const server = await TestServer.open({ token: 'secret' })
  for (const [what, cookie] of HOSTILE) {
    expect([what, (await server.get('/ojs/v1/queues', { cookie })).status]).toEqual([what, 401])
    expect([what, (await server.get('/api/v1/session', { cookie })).body['authenticated']]).toEqual([what, false])
  }
})

test('a wrong token is not made good by a good cookie, and a session begins no other', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie } = await signedIn(server)
  expect((await server.get('/ojs/v1/queues', { cookie, authorization: 'Bearer wrong' })).status).toBe(401)
  expect((await server.call('POST', '/api/v1/session', undefined, { ...PAGE, cookie })).status).toBe(401)
})

test('over TLS the cookie is Secure, and one that another host could have set is not looked at', async () => {
  const server = await TestServer.open({ token: 'secret', isTls: true })
  const { cookie, reply } = await signedIn(server)
  expect(reply.headers['Set-Cookie']).toMatch(/^__Host-curfew_session=.*; HttpOnly; SameSite=Strict; Secure$/)
  expect((await server.get('/ojs/v1/queues', { cookie })).status).toBe(200)
  expect((await server.get('/ojs/v1/queues', { cookie: cookie.replace('__Host-', '') })).status).toBe(401)
})

test('behind a proxy that ends TLS the cookie is Secure too', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const { cookie, reply } = await signedIn(server, 'secret', { ...PAGE, origin: 'https://curfew.example' })
  expect(reply.headers['Set-Cookie']).toMatch(/^__Host-curfew_session=.*; Secure$/)
  expect((await server.get('/ojs/v1/queues', { cookie })).status).toBe(200)
})
