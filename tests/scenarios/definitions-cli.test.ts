/** `curfew journey deploy`: from a file to a server. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runCurfew } from '../../packages/server/src/cli/run.ts'
import { TestServer } from '../harness.ts'

let server: TestServer
let folder: string
beforeEach(async () => {
  server = await TestServer.open({ token: 'secret' })
  folder = mkdtempSync(join(tmpdir(), 'curfew-deploy-'))
  vi.stubGlobal(
    'fetch',
    async (url: string, init: { method: string; headers: Record<string, string>; body?: string }) => {
      const { status, text } = await server.call(init.method, new URL(url).pathname, init.body ?? '', init.headers)
      return new Response(text, { status })
    },
  )
})
afterEach(async () => {
  vi.unstubAllGlobals()
  rmSync(folder, { recursive: true })
  await server.close()
})

const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
async function deploy(...args: string[]): Promise<{ code: number; out: string }> {
  let out = ''
  const terminal = {
    env: { CURFEW_TOKEN: 'secret' },
    width: 80,
    colour: false,
    write: (text: string) => void (out += `${text}\n`),
  }
  return { code: await runCurfew(['journey', 'deploy', ...args], terminal), out }
}

const calling = (version: string, path = 'users'): string => `apiVersion: v1
kind: Journey
metadata: { name: caller, version: ${version} }
spec:
  apis: { users: { openApiRef: ./users.yaml } }
  start: load
  states:
    load: { type: task, task: { kind: httpCall:v1, operationRef: ${path}.get, resultVar: user }, next: end }
    end: { type: succeed }
`

test('a definition goes to the server with the documents it names, and is in force', async () => {
  write('users.yaml', 'servers: [{ url: https://users.example }]\npaths: { /me: { get: { operationId: get } } }\n')
  const file = write('caller.yaml', calling('1.0.0'))
  expect(await deploy(file)).toEqual({
    code: 0,
    out: `${file}: Journey caller 1.0.0 deployed; a run may take 86400 s\n`,
  })
  expect((await deploy(file)).out).toContain('already deployed; now in force')
  const { body } = await server.get('/api/v1/definitions/caller', { authorization: 'Bearer secret' })
  expect(body['definition']).toMatchObject({ spec: { apis: { users: { openApi: { paths: { '/me': {} } } } } } })
})

test('one that is wrong stays at home', async () => {
  write('users.yaml', 'servers: [{ url: https://users.example }]\npaths: {}\n')
  const { code, out } = await deploy(write('caller.yaml', calling('1.0.0')))
  expect(code).toBe(1)
  expect(out).toMatch(/:8:\d+ error HTTP-1: The API users has no operation "get"/)
  expect((await server.get('/api/v1/definitions', { authorization: 'Bearer secret' })).body.items).toEqual([])
})

test('a refusal by the server is printed', async () => {
  write('users.yaml', 'servers: [{ url: https://users.example }]\npaths: { /me: { get: { operationId: get } } }\n')
  await deploy(write('caller.yaml', calling('1.0.0')))
  const other = write('other.yaml', calling('1.0.0').replace('resultVar: user', 'resultVar: other'))
  await expect(deploy(other)).rejects.toThrow('versions do not change')
})

test('files that a definition names are also looked for below --root', async () => {
  mkdirSync(join(folder, 'shared', 'apis'), { recursive: true })
  const document = 'servers: [{ url: https://users.example }]\npaths: { /me: { get: { operationId: get } } }\n'
  write(join('shared', 'apis', 'users.yaml'), document)
  const file = write('caller.yaml', calling('1.0.0').replace('./users.yaml', 'apis/users.yaml'))
  const { code, out } = await deploy(file)
  expect(code).toBe(1)
  expect(out).toContain(`No such file: ${join(folder, 'apis', 'users.yaml')}. --root DIR names another folder.`)
  expect((await deploy(file, '--root', join(folder, 'shared'))).code).toBe(0)
})
