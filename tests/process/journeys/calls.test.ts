/** Calls of runs on real sockets and the real clock: others that drip, flood, stay silent or point elsewhere. */
import { clockFrom, millis, type HttpResult, type Instant, type PreparedCall, type Resilience } from '@curfew/core'
import { afterAll, describe, expect, test } from 'vitest'
import { plusLag } from '../../machine-lag.ts'
import { noSecrets } from '../../../packages/server/src/engine/journeys/call-auth.ts'
import { performCall, type Caller, type CallTerms } from '../../../packages/server/src/engine/journeys/call.ts'
import { BLOCKED, BLOCKED_METADATA } from '../../../packages/server/src/engine/outgoing.ts'
import { nodeHost } from '../../../packages/server/src/host.ts'
import { openHttpClient } from '../../../packages/server/src/net/http-client.ts'
import { until } from '../server-process.ts'
import { drips, dripsHeaders, floods, json, silent, Upstream, type React } from './upstream.ts'

const SEEN_WITHIN_MS = 250

const open = openHttpClient({ allowPrivateNetwork: true })
const guarded = openHttpClient({ allowPrivateNetwork: false })
afterAll(() => {
  open.close()
  guarded.close()
})

const clock = clockFrom(nodeHost)
const caller: Caller = {
  send: open.send,
  host: nodeHost,
  now: () => clock.now(),
  timerAt: (at, fire) => nodeHost.setTimer(at - clock.now(), fire),
  random: () => 0.5,
  secrets: noSecrets,
}

interface Made {
  readonly result: HttpResult | null
  readonly tookMs: number
}

async function made(
  url: string,
  runMs: number,
  terms: Partial<CallTerms> = {},
  call: Partial<PreparedCall> = {},
  from: Caller = caller,
): Promise<Made> {
  const begun = clock.now()
  const result = await performCall(
    from,
    { method: 'GET', url, headers: {}, body: null, ...call },
    {
      timeoutMs: millis(10_000),
      resilience: null,
      deadlineAt: (begun + runMs) as Instant,
      signal: new AbortController().signal,
      idempotencyKey: 'run/state/1',
      ...terms,
    },
  )
  return { result, tookMs: clock.now() - begun }
}

const slow: Readonly<Record<string, React>> = {
  'a body that drips': drips,
  'headers that drip': dripsHeaders,
  'no answer': silent,
}

describe.each(Object.entries(slow))('%s', (_, react) => {
  test("is cut at the run's deadline, and the other side sees it", async () => {
    const there = await Upstream.open(react)
    const { result, tookMs } = await made(there.url, 300)
    expect(result).toBeNull()
    expect(tookMs).toBeGreaterThanOrEqual(300)
    expect(tookMs).toBeLessThan(plusLag(300 + SEEN_WITHIN_MS))
    const [seen] = there.seen
    await until('the connection is closed', () => seen?.hungUpAt ?? null)
    expect((seen?.hungUpAt ?? 0) - (seen?.at ?? 0)).toBeLessThan(plusLag(300 + 2 * SEEN_WITHIN_MS))
  })

  test('is a timeout when the call has a shorter one of its own', async () => {
    const there = await Upstream.open(react)
    const { result, tookMs } = await made(there.url, 10_000, { timeoutMs: millis(200) })
    expect(result).toMatchObject({ ok: false, error: { type: 'TIMEOUT', message: 'no answer within 200 ms' } })
    expect(tookMs).toBeLessThan(plusLag(200 + SEEN_WITHIN_MS))
    await until('the connection is closed', () => there.seen[0]?.hungUpAt ?? null)
  })

  test('is cut when the run ends', async () => {
    const there = await Upstream.open(react)
    const run = new AbortController()
    const call = made(there.url, 10_000, { signal: run.signal })
    await until('it arrived', () => there.seen[0])
    run.abort()
    const { result, tookMs } = await call
    expect(result).toBeNull()
    expect(tookMs).toBeLessThan(plusLag(2_000))
    await until('the connection is closed', () => there.seen[0]?.hungUpAt ?? null)
  })
})

test('an answer without end is cut off, and does not become a result', async () => {
  const there = await Upstream.open(floods)
  const before = process.memoryUsage().rss
  const { result } = await made(there.url, 10_000)
  expect(result).toMatchObject({
    ok: false,
    error: { type: 'NETWORK', message: 'the answer is longer than 1048576 bytes' },
  })
  await until('the connection is closed', () => there.seen[0]?.hungUpAt ?? null)
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
})

test('the largest answer that is read is read whole', async () => {
  const text = 'é'.repeat(524_288)
  const there = await Upstream.open((response) => response.writeHead(200).end(text))
  const { result } = await made(there.url, 20_000)
  expect(result).toMatchObject({ status: 200, ok: true })
  expect(result?.body === text).toBe(true)
})

describe('redirects', () => {
  /** The first site is outside as far as the guard is asked; whatever it points to is not. */
  const led = (first: string): Caller => ({
    ...caller,
    send: (call) => (call.url.startsWith(first) ? open.send(call) : guarded.send(call)),
  })

  test.each([
    'http://127.0.0.1:1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::1]/',
    'http://[::ffff:10.0.0.1]/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://localhost/',
  ])('into the private network, to %s, are blocked and not tried again', async (location) => {
    const there = await Upstream.open((response) => response.writeHead(302, { Location: location }).end())
    const resilience: Resilience = {
      maxAttempts: 3,
      retryOn: ['NETWORK_ERROR', 'HTTP_5XX'],
      backoff: { kind: 'fixed', baseDelayMs: millis(1), maxDelayMs: millis(1), jitter: 'none' },
    }
    const { result } = await made(there.url, 10_000, { resilience }, {}, led(there.url))
    const message = location.includes('169.254.') ? BLOCKED_METADATA : BLOCKED
    expect(result).toEqual({ ok: false, headers: {}, body: null, error: { type: 'NETWORK', message } })
    expect(there.seen).toHaveLength(1)
  })

  test('are followed, without credentials where they lead to another host', async () => {
    const end = await Upstream.open(json({ there: true }))
    const there = await Upstream.open((response) => response.writeHead(307, { Location: `${end.url}/b` }).end())
    const call = { method: 'POST', body: '{"a":1}', headers: { Authorization: 'Bearer x', 'X-Trace': '1' } }
    const { result } = await made(there.url, 10_000, {}, call)
    expect(result).toMatchObject({ status: 200, body: { there: true } })
    expect(end.seen).toMatchObject([{ method: 'POST', path: '/b', body: '{"a":1}', headers: { 'x-trace': '1' } }])
    expect(end.seen[0]?.headers['authorization']).toBeUndefined()
    expect(there.seen[0]?.headers).toMatchObject({ authorization: 'Bearer x', 'idempotency-key': 'run/state/1' })
    expect(Number(there.seen[0]?.headers['x-curfew-remaining-ms'])).toBeGreaterThan(10_000 - plusLag(1_000))
  })
})

test('a host that hangs up, or is not there, is a network error, tried again as the policy says', async () => {
  let times = 0
  const there = await Upstream.open((response, seen, socket) => {
    times += 1
    if (times < 3) socket.destroy()
    else json({ times })(response, seen, socket)
  })
  const resilience: Resilience = {
    maxAttempts: 3,
    retryOn: ['NETWORK_ERROR'],
    backoff: { kind: 'exponential', baseDelayMs: millis(10), maxDelayMs: millis(50), jitter: 'full' },
  }
  expect((await made(there.url, 10_000, { resilience })).result).toMatchObject({ status: 200, body: { times: 3 } })
  expect(new Set(there.seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
  expect((await made('http://127.0.0.1:1/', 10_000, { resilience })).result?.error).toEqual({
    type: 'NETWORK',
    message: 'no answer: the connection was refused',
  })
})
