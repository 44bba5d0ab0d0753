/** HTTPS by the server itself, with a certificate that is replaced while it runs. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { curfew, ServerProcess, temporaryDirectory, until } from './server-process.ts'

interface Pair {
  readonly cert: string
  readonly key: string
}

let folder: string
let first: Pair
let second: Pair
let live: Pair

function makePair(name: string): Pair {
  const pair = { cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) }
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  execFileSync('openssl', ['req', ...kind, ...subject, '-keyout', pair.key, '-out', pair.cert], { stdio: 'ignore' })
  return pair
}

function use(pair: Pair): void {
  copyFileSync(pair.cert, live.cert)
  copyFileSync(pair.key, live.key)
}

beforeAll(() => {
  folder = temporaryDirectory()
  first = makePair('first')
  second = makePair('second')
  live = { cert: join(folder, 'live.crt'), key: join(folder, 'live.key') }
})

async function start(...flags: string[]): Promise<ServerProcess> {
  use(first)
  return ServerProcess.start({ flags: ['--tls-cert', live.cert, '--tls-key', live.key, ...flags] })
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  readonly subject: string
}

function ask(
  { port }: ServerProcess,
  {
    method = 'GET',
    path = '/health',
    body = '',
    headers = {},
    agent,
    ca,
  }: {
    method?: string
    path?: string
    body?: string
    headers?: Record<string, string>
    agent?: Agent
    ca: string
  },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = { 'Content-Type': 'application/json', 'Content-Length': String(Buffer.byteLength(body)), ...headers }
    const where = { host: '127.0.0.1', port, method, path, headers: sent, ca: readFileSync(ca) }
    const call = request({ ...where, agent: agent ?? false }, (response) => {
      let text = ''
      // A connection that is kept alive is taken from the response before its end.
      const subject = String((response.socket as TLSSocket).getPeerCertificate().subject.CN)
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('error', reject)
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, subject })
      })
    })
    call.on('error', reject)
    call.end(body)
  })
}

/** What the server shows to a connection that begins now. */
function shown({ port }: ServerProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN))
      socket.destroy()
    })
    socket.on('error', reject)
  })
}

test('a server with a certificate serves HTTPS on both lanes, and nothing but HTTPS', async () => {
  const server = await start()
  expect(server.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
  const ca = first.cert
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => {
    agent.destroy()
  })
  expect(await ask(server, { ca, agent })).toMatchObject({ status: 200, subject: 'first' })
  // A body too large for the fast lane: the connection is handed over to node:http, with what has come already.
  const large = JSON.stringify({ type: 'a', args: ['x'.repeat(400_000)] })
  const made = await ask(server, { ca, agent, method: 'POST', path: '/ojs/v1/jobs', body: large })
  expect(made.status).toBe(201)
  const { job } = JSON.parse(made.text) as { job: { id: string; args: string[] } }
  const read = await ask(server, { ca, agent, path: `/ojs/v1/jobs/${job.id}` })
  expect((JSON.parse(read.text) as { job: { args: string[] } }).job.args[0]).toHaveLength(400_000)
  await expect(server.get('/health')).rejects.toThrow(/socket hang up|ECONNRESET/)
  expect(await server.stop()).toMatchObject({ code: 0 })
})

test('a new certificate is shown to new connections, and open ones go on', async () => {
  const server = await start()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => {
    agent.destroy()
  })
  const before = await ask(server, { ca: first.cert, agent })
  expect(before.subject).toBe('first')
  use(second)
  await until('the new certificate', async () => ((await shown(server)) === 'second' ? true : undefined))
  // The connection that was open is the same one, with the certificate it began with.
  expect(await ask(server, { ca: first.cert, agent })).toMatchObject({ status: 200, subject: 'first' })
  expect(await ask(server, { ca: second.cert })).toMatchObject({ status: 200, subject: 'second' })
  expect(server.log.some(({ msg }) => msg === 'TLS certificate reloaded')).toBe(true)
})

test.each([
  ['is not a certificate', () => writeFileSync(live.cert, 'nonsense')],
  ['is empty', () => writeFileSync(live.cert, '')],
  ['has another key', () => copyFileSync(second.cert, live.cert)],
])('a new certificate that %s is logged, and the old one stays', async (_, spoil) => {
  const server = await start()
  spoil()
  const complaint = await until('a complaint', () => server.log.find(({ level }) => level === 50))
  expect(complaint).toMatchObject({ cert: live.cert, reason: expect.any(String) })
  expect(server.stderr).not.toContain('PRIVATE KEY')
  expect(await ask(server, { ca: first.cert })).toMatchObject({ status: 200, subject: 'first' })
  use(second)
  await until('the new certificate', async () => ((await shown(server)) === 'second' ? true : undefined))
})

test('a server stops in time while a handshake never ends', async () => {
  const server = await start()
  const socket = connectPlain(server.port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  expect((await ask(server, { ca: first.cert })).status).toBe(200)
  expect(await server.stop()).toMatchObject({ code: 0 })
})

test('a session over TLS is in a cookie that is sent over TLS only', async () => {
  const server = await start('--token', 'secret')
  const ca = first.cert
  expect((await ask(server, { ca, path: '/ojs/v1/queues' })).status).toBe(401)
  const signIn = { ca, method: 'POST', path: '/api/v1/session', headers: { authorization: 'Bearer secret' } }
  const [cookie = ''] = [(await ask(server, signIn)).headers['set-cookie'] ?? []].flat()
  expect(cookie).toMatch(/^__Host-curfew_session=.*; HttpOnly; SameSite=Strict; Secure$/)
  const own = { cookie: cookie.split(';')[0] ?? '' }
  expect((await ask(server, { ca, path: '/ojs/v1/queues', headers: own })).status).toBe(200)
})

test('the command line speaks to a server over HTTPS', async () => {
  const server = await start('--token', 'secret')
  const env = { CURFEW_URL: server.url, CURFEW_TOKEN: 'secret', NODE_EXTRA_CA_CERTS: first.cert }
  const made = await curfew(['token', 'create', 'ci', '--role', 'read'], env)
  expect(made).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^curfew_[0-9a-f]{12}_[\w-]{43}\nci may read\./),
  })
})

test.each([
  ['a key that is missing', () => ['--tls-cert', first.cert], /--tls-key is missing: HTTPS needs both files/],
  ['a certificate that is missing', () => ['--tls-key', first.key], /--tls-cert is missing: HTTPS needs both files/],
  [
    'a file that is not there',
    () => ['--tls-cert', join(folder, 'nope.crt'), '--tls-key', first.key],
    /Cannot use the certificate .*nope\.crt with the key/,
  ],
  [
    'a key of another certificate',
    () => ['--tls-cert', first.cert, '--tls-key', second.key],
    /Cannot use the certificate .*first\.crt with the key .*second\.key: .*mismatch/,
  ],
])('%s stops the start', async (_, flags, said) => {
  const ended = await curfew(['serve', '--port', '0', '--data', temporaryDirectory(), ...flags()])
  expect(ended.code).toBe(2)
  expect(ended.stderr).toMatch(said)
})
