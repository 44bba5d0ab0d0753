import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { foreignCall, readAllowedHosts } from './origin.ts'

type Headers = Readonly<Record<string, string | undefined>>

/** The header that speaks against the call, or null. */
const against = (method: string, headers: Headers, allowed: readonly string[] = []): unknown =>
  foreignCall({ method, headers }, allowed)?.details['header'] ?? null

const HERE = { host: 'localhost:8080' }

describe('the host name', () => {
  test.each([
    'localhost',
    'LocalHost:8080',
    'localhost.:1',
    'app.localhost:80',
    '127.0.0.1:8080',
    '127.8.9.1',
    '127.255.0.199',
    '[::1]:1',
  ])('%s is of this machine', (host) => {
    for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']) expect(against(method, { host })).toBeNull()
  })

  test.each([
    ...['evil.test', 'evil.test:8080', 'localhost.evil.test', 'evil-localhost', 'notlocalhost', '127.0.0.1.evil.test'],
    ...[
      '128.0.0.1',
      '127.0.0.256',
      '127.1',
      '127.0.0.1.2',
      '10.0.0.1:8080',
      '0.0.0.0:8080',
      '[::2]',
      '[::ffff:8.8.8.8]',
      '',
      ':8080',
      'localhost:x',
    ],
    ...['user@localhost', 'localhost/', 'localhost evil.test', 'localhost, evil.test', '[localhost]', '.localhost'],
  ])('%j is not', (host) => {
    for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']) expect(against(method, { host })).toBe('Host')
  })

  test('may be one that was allowed, or below one that was', () => {
    const allowed = readAllowedHosts('Curfew.example, .jobs.example ,').hosts
    for (const host of [
      'curfew.example',
      'CURFEW.example:443',
      'curfew.example.',
      'jobs.example',
      'a.b.jobs.example:1',
    ])
      expect(against('POST', { host }, allowed)).toBeNull()
    for (const host of ['a.curfew.example', 'evilcurfew.example', 'evil-jobs.example', 'jobs.example.evil.test'])
      expect(against('POST', { host }, allowed)).toBe('Host')
  })

  test('is missing where the handler is called in its own process', () => {
    expect(against('POST', {})).toBeNull()
  })

  test('that is refused gets a message that says what to do', () => {
    const refused = foreignCall({ method: 'GET', headers: { host: 'jobs.example' } }, [])
    expect([refused?.code, refused?.message]).toEqual([
      'permission_denied',
      'This server has no token and does not serve the host name "jobs.example".',
    ])
    expect(refused?.hint).toContain('--allowed-hosts')
  })
})

describe('the origin', () => {
  test.each([
    ['a program', {}],
    ['a page of this server', { 'sec-fetch-site': 'same-origin', origin: 'http://localhost:8080' }],
    ['a person, by the address bar', { 'sec-fetch-site': 'none' }],
    ['an older browser on a page of this server', { origin: 'http://localhost:8080' }],
    [
      'a page of this server behind a proxy',
      { host: 'localhost', 'sec-fetch-site': 'same-origin', origin: 'https://a' },
    ],
    ['a page on the port of its scheme', { host: 'localhost', origin: 'http://localhost:80' }],
    ['a page on the port of its scheme, named', { host: 'localhost:443', origin: 'https://localhost' }],
    ['a page on an address', { host: '[::1]:8080', origin: 'http://[0:0:0:0:0:0:0:1]:8080' }],
  ])('of %s may change something', (_, headers: Headers) => {
    expect(against('POST', { ...HERE, ...headers })).toBeNull()
  })

  test.each([
    ['a page elsewhere', { 'sec-fetch-site': 'cross-site', origin: 'http://evil.test' }, 'Sec-Fetch-Site'],
    ['a page on another port', { 'sec-fetch-site': 'same-site', origin: 'http://localhost:3000' }, 'Sec-Fetch-Site'],
    ['one site after another', { 'sec-fetch-site': 'cross-site, same-origin' }, 'Sec-Fetch-Site'],
    ['no page, yet with an origin', { 'sec-fetch-site': 'none', origin: 'http://evil.test' }, 'Origin'],
    ['no site at all', { 'sec-fetch-site': '' }, 'Sec-Fetch-Site'],
    ['an older browser elsewhere', { origin: 'http://evil.test' }, 'Origin'],
    ['another port', { origin: 'http://localhost:8081' }, 'Origin'],
    ['another name of this machine', { origin: 'http://127.0.0.1:8080' }, 'Origin'],
    ['the same port of another scheme', { host: 'localhost', origin: 'https://localhost:80' }, 'Origin'],
    ['a sandbox or a file', { origin: 'null' }, 'Origin'],
    ['nonsense', { origin: 'localhost:8080' }, 'Origin'],
    ['two of them', { origin: 'http://localhost:8080, http://evil.test' }, 'Origin'],
    ['a page, for a call without Host', { host: undefined, origin: 'http://localhost:8080' }, 'Origin'],
  ])('of %s may not, but may ask', (_, headers: Headers, header) => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'PURGE'])
      expect(against(method, { ...HERE, ...headers })).toBe(header)
    for (const method of ['GET', 'HEAD', 'OPTIONS']) expect(against(method, { ...HERE, ...headers })).toBeNull()
  })
})

test('no page whose address differs from that of the server changes anything, whatever the browser says of it', () => {
  const name = fc.constantFrom('localhost', '127.0.0.1', '[::1]', 'a.localhost', 'evil.test')
  const site = fc.constantFrom(undefined, 'cross-site', 'same-site')
  fc.assert(
    fc.property(name, fc.nat(65_535), name, fc.nat(65_535), site, (server, port, page, pagePort, from) => {
      fc.pre(server !== page || port !== pagePort)
      const headers = { host: `${server}:${String(port)}`, origin: `http://${page}:${String(pagePort)}` }
      expect(against('POST', { ...headers, 'sec-fetch-site': from })).not.toBeNull()
    }),
  )
})

test('a list of hosts takes names and addresses, and says which part of it is neither', () => {
  expect(readAllowedHosts('a, B.example,.c.example,10.0.0.1,[::2]')).toEqual({
    hosts: ['a', 'b.example', '.c.example', '10.0.0.1', '[::2]'],
    bad: null,
  })
  for (const bad of ['http://a', 'a:8080', '*', '*.a', 'a b', '..a', 'a/', '.'])
    expect(readAllowedHosts(`ok,${bad}`).bad).toBe(bad)
})
