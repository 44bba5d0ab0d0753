/** `curfew token …`: tokens of a server, from the command line. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SettingsError } from 'curfew'
import { runCurfew } from '../../packages/server/src/cli/run.ts'
import { TestServer } from '../harness.ts'

let server: TestServer
beforeEach(async () => {
  server = await TestServer.open({ token: 'secret' })
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
  vi.restoreAllMocks()
  await server.close()
})

async function token(...args: string[]): Promise<string> {
  let out = ''
  const env = { CURFEW_TOKEN: 'secret' }
  await runCurfew(['token', ...args], { env, width: 80, colour: false, write: (text) => void (out += `${text}\n`) })
  return out
}

const statusWith = async (text: string): Promise<number> =>
  (await server.get('/ojs/v1/queues', { authorization: `Bearer ${text}` })).status

test('a token is made, listed, rotated and revoked', async () => {
  const [first = '', said] = (await token('create', 'ci', '--role', 'read', '--role', 'produce')).split('\n')
  expect(said).toBe('ci may read, produce. Keep this token now: it is not shown again.')
  expect(await statusWith(first)).toBe(200)
  const [second = '', rotated] = (await token('rotate', 'ci', '--overlap', '1h', '--utc')).split('\n')
  expect(rotated).toContain('The secret before stays valid until 2026-01-01 13:00:00.')
  expect([await statusWith(first), await statusWith(second)]).toEqual([200, 200])
  const list = await token('list', '--utc')
  expect(list.split('\n').slice(0, 2)).toEqual([
    'NAME  ROLES         STATE  SECRETS                      LAST USED',
    'ci    read,produce  valid  2 until 2026-01-01 13:00:00  2026-01-01 12:00:00',
  ])
  expect(list.includes(first) || list.includes(second)).toBe(false)
  await expect(token('revoke', 'ci')).rejects.toThrow(
    'Revoke token ci? Nothing was done. Repeat the command with --yes.',
  )
  expect(await statusWith(second)).toBe(200)
  expect(await token('revoke', 'ci', '--yes')).toBe('ci is revoked\n')
  expect([await statusWith(first), await statusWith(second)]).toEqual([401, 401])
  expect(JSON.parse(await token('list', '--json'))).toMatchObject({ items: [{ name: 'ci', state: 'revoked' }] })
})

test('times of tokens are those of this machine unless --utc is given', async () => {
  await token('create', 'ci', '--role', 'read')
  vi.spyOn(Date.prototype, 'getTimezoneOffset').mockReturnValue(300)
  expect(await token('rotate', 'ci', '--overlap', '1h')).toContain('until 2026-01-01 08:00:00.')
  expect(await token('list')).toContain('2 until 2026-01-01 08:00:00')
  expect(await token('list')).toContain('never')
})

test.each([
  [['create', 'ci'], '--role is missing'],
  [['create', 'ci', '--role', 'root'], '--role "root" is not a role. Roles are read, produce, work, operate, admin.'],
  [['create', '--role', 'read'], 'NAME is missing'],
  [['rotate', 'ci', '--overlap', 'soon'], '--overlap must be a length'],
  [['drop', 'ci'], 'Unknown command "token drop"'],
])('%j is refused before anything is sent', async (args, said) => {
  const refused = token(...args)
  await expect(refused).rejects.toThrow(said)
  await expect(refused).rejects.toBeInstanceOf(SettingsError)
})

test('a refusal of the server is printed in its own words', async () => {
  await expect(token('revoke', 'nope', '-y')).rejects.toThrow(/not_found/)
  await expect(token('create', 'a b', '--role', 'read')).rejects.toThrow(/name must be the name of a token/)
  await expect(token('rotate', 'ci', '--token', 'wrong')).rejects.toThrow(/not valid/)
})
