/** The connections of the SDK in a process of its own: they do not keep it alive, and trust the certificates that Node is set to trust. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { runNode, temporaryDirectory, until } from '../server-process.ts'

const sdk = new URL('../../../packages/sdk/dist/index.js', import.meta.url).href
const servers: { close(): void }[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

async function listening(server: Server): Promise<{ port: number; open: () => number; made: () => number }> {
  const sockets = new Set<Socket>()
  let open = 0
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    open += 1
    socket.on('error', () => {}).on('close', () => (open -= 1))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  servers.push({
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  })
  return { port: (server.address() as AddressInfo).port, open: () => open, made: () => sockets.size }
}

function program(code: string): string {
  const file = join(temporaryDirectory(), 'program.mjs')
  writeFileSync(file, `import { Client } from ${JSON.stringify(sdk)}\n${code}`)
  return file
}

test('a process ends by itself although its client was not closed and the server keeps the connection', async () => {
  const server = createServer({ keepAliveTimeout: 0 }, (_, response) => response.end('{"status":"ok"}'))
  const { port, open } = await listening(server)
  const child = runNode(
    program(`const client = new Client({ url: process.env.URL })
      await Promise.all([client.health(), client.health()])
      await client.health()
      console.log('done')`),
    { URL: `http://127.0.0.1:${String(port)}` },
  )
  await until('the process has ended', () => child.ended() !== null)
  expect(child.output.stdout).toContain('done')
  expect(child.ended()).toMatchObject({ code: 0 })
  await until('its connections are closed', () => open() === 0)
})

test('a process waits for a stream, on a connection that was idle before too', async () => {
  const held: ServerResponse[] = []
  const server = createServer((request, response) => {
    if (request.url !== '/stream') {
      response.end('{"status":"first"}')
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    held.push(response)
  })
  const { port, made } = await listening(server)
  const child = runNode(
    program(`const client = new Client({ url: process.env.URL })
      console.log((await client.health()).status)
      const chunks = await client.connection.stream('/stream', {}, new AbortController().signal)
      console.log('open')
      for await (const chunk of chunks) console.log(chunk)`),
    { URL: `http://127.0.0.1:${String(port)}` },
  )
  await until('the stream is open', () => child.output.stdout.includes('open'))
  // As long as another process takes to come and go, this one has nothing but the stream to wait for.
  await runNode(program('')).exited
  held[0]?.end('second')
  await until('the process has ended', () => child.ended() !== null)
  expect(child.output.stdout).toBe('first\nopen\nsecond\n')
  expect(made()).toBe(1)
})

test('certificates of NODE_EXTRA_CA_CERTS are trusted, and others are not', async () => {
  const folder = temporaryDirectory()
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const names = ['-subj', '/CN=curfew', '-addext', 'subjectAltName=DNS:localhost']
  execFileSync('openssl', ['req', '-x509', ...curve, '-keyout', key, '-out', cert, ...names], { stdio: 'ignore' })
  const server = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) =>
    response.end('{"status":"ok"}'),
  )
  const { port } = await listening(server)
  const file = program(`const client = new Client({ url: process.env.URL })
    console.log(await client.health().then(({ status }) => status, (error) => error.code + ' ' + error.message))`)
  const env = { URL: `https://localhost:${String(port)}` }
  const trusting = runNode(file, { ...env, NODE_EXTRA_CA_CERTS: cert })
  const doubting = runNode(file, env)
  await until('both have ended', () => trusting.ended() !== null && doubting.ended() !== null)
  expect(trusting.output.stdout).toBe('ok\n')
  expect(doubting.output.stdout).toMatch(/^network No answer from https:\/\/localhost:\d+: self-signed certificate/)
})
