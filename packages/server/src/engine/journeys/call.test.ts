import {
  FakeClock,
  millis,
  RETRY_CONDITIONS,
  type Host,
  type HttpResult,
  type Instant,
  type PreparedCall,
  type Resilience,
  type Timer,
} from '@curfew/core'
import { beforeEach, describe, expect, test } from 'vitest'
import { performCall, type CallTerms } from './call.ts'
import { BLOCKED, CallFailed, CallRefused, type OutgoingAnswer, type OutgoingCall } from '../outgoing.ts'

type Answer = (call: OutgoingCall) => Promise<OutgoingAnswer> | OutgoingAnswer

let clock: FakeClock
let sent: { at: number; call: OutgoingCall }[]
let startedAt: Instant
/** How far the time has gone on while nothing could fire. */
let busyMs: number
beforeEach(() => {
  clock = new FakeClock()
  sent = []
  busyMs = 0
  startedAt = clock.now()
})

const answer = (status: number, more: Partial<OutgoingAnswer> = {}): OutgoingAnswer => ({
  status,
  headers: {},
  body: '',
  truncated: false,
  ...more,
})
const to = (location: string, status = 302): OutgoingAnswer => answer(status, { headers: { location } })
/** Answers only when the call is aborted. */
const silent: Answer = ({ signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(new CallFailed('the time was up', null))
    })
  })
/** Does not even hear that. */
const deaf: Answer = () => new Promise(() => {})

const policy = (more: Partial<Resilience> = {}): Resilience => ({
  maxAttempts: 3,
  retryOn: [...RETRY_CONDITIONS],
  backoff: { kind: 'fixed', baseDelayMs: millis(100), maxDelayMs: millis(1_000), jitter: 'none' },
  ...more,
})

interface Asked {
  /** One for each request; the last stays. */
  readonly answers: readonly Answer[]
  readonly call?: Partial<PreparedCall>
  readonly terms?: Partial<Omit<CallTerms, 'deadlineAt'>>
  readonly runMs?: number
}

const SECRETS = new Map([
  ['payments', 'pay "me"/now'],
  ['shop', 'open-sesame'],
])

/** Timers of Node. */
function setTimer(ms: number, fire: () => void): Timer {
  expect(ms).toBeLessThan(2 ** 31)
  return clock.setTimer(ms, fire)
}

const machine: Omit<Host, 'setTimer'> = {
  wallMs: () => clock.wallMs(),
  monotonicMs: () => clock.monotonicMs(),
  defer: (run) => {
    clock.defer(run)
  },
}

/** Turns the clock until there is a result, and says when that was. */
async function made({
  answers,
  call = {},
  terms = {},
  runMs = 60_000,
}: Asked): Promise<{ result: HttpResult | null; afterMs: number }> {
  const caller = {
    send: async (outgoing: OutgoingCall) => {
      sent.push({ at: clock.now() - startedAt, call: outgoing })
      const next = answers[Math.min(sent.length, answers.length) - 1]
      if (next === undefined) throw new Error('nothing to answer')
      return next(outgoing)
    },
    host: { ...machine, setTimer },
    now: () => (clock.now() + busyMs) as Instant,
    timerAt: (at: Instant, fire: () => void) => setTimer(at - clock.now(), fire),
    random: () => 0.5,
    secrets: { valueOf: (name: string) => SECRETS.get(name) ?? null },
  }
  let over: { result: HttpResult | null; afterMs: number } | null = null
  const done = performCall(
    caller,
    { method: 'POST', url: 'https://a.example/x', headers: {}, body: null, ...call },
    {
      timeoutMs: millis(2_000),
      resilience: null,
      deadlineAt: (startedAt + runMs) as Instant,
      signal: new AbortController().signal,
      idempotencyKey: 'run/load/1',
      ...terms,
    },
  ).then((result) => {
    over = { result, afterMs: clock.now() - startedAt }
  })
  done.catch(() => {})
  for (let turns = 0; over === null && turns < 100; turns += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    const next = clock.nextTimerAt()
    if (over === null && next !== null) clock.advance(next - clock.now())
  }
  await done
  expect(clock.nextTimerAt()).toBeNull()
  return over ?? { result: null, afterMs: -1 }
}

const later =
  (ms: number, then: Answer): Answer =>
  (call) =>
    new Promise((resolve, reject) => {
      const timer = clock.setTimer(ms, () => {
        Promise.resolve(then(call)).then(resolve, reject)
      })
      call.signal.addEventListener('abort', () => {
        timer.cancel()
        reject(new CallFailed('the time was up', null))
      })
    })

describe('an attempt', () => {
  test('brings what was answered', async () => {
    const json = answer(201, { headers: { 'content-type': 'application/json' }, body: '{"a":1}' })
    expect(await made({ answers: [later(30, () => json)] })).toEqual({
      result: { status: 201, ok: true, headers: { 'Content-Type': 'application/json' }, body: { a: 1 } },
      afterMs: 30,
    })
  })

  test('ends at its own timeout, when the run has more time', async () => {
    for (const answers of [[silent], [deaf]] as const) {
      startedAt = clock.now()
      expect(await made({ answers })).toEqual({
        result: { ok: false, headers: {}, body: null, error: { type: 'TIMEOUT', message: 'no answer within 2000 ms' } },
        afterMs: 2_000,
      })
    }
  })

  test("ends at the run's deadline, without a result; also when both come at once", async () => {
    for (const [runMs, one] of [
      [1_999, silent],
      [2_000, silent],
      [500, deaf],
      [1, deaf],
    ] as const) {
      startedAt = clock.now()
      expect(await made({ answers: [one], runMs })).toEqual({ result: null, afterMs: runMs })
    }
  })

  test('an answer in the very millisecond of the deadline is late', async () => {
    expect(await made({ answers: [later(500, () => answer(200))], runMs: 501 })).toMatchObject({ result: { ok: true } })
    startedAt = clock.now()
    expect(await made({ answers: [later(500, () => answer(200))], runMs: 500 })).toEqual({ result: null, afterMs: 500 })
  })

  test('an answer that was there in time, and is seen too late, is late', async () => {
    const busy: Answer = () => {
      busyMs = 500
      return answer(200)
    }
    expect((await made({ answers: [busy], runMs: 500 })).result).toBeNull()
  })

  test('is not made when nothing is left', async () => {
    expect((await made({ answers: [silent], runMs: 0 })).result).toBeNull()
    expect(sent).toHaveLength(0)
  })

  test('is aborted with the run, and says nothing then', async () => {
    const run = new AbortController()
    clock.setTimer(300, () => {
      run.abort()
    })
    expect(await made({ answers: [silent], terms: { signal: run.signal } })).toEqual({ result: null, afterMs: 300 })
    expect(sent[0]?.call.signal.aborted).toBe(true)
    expect((await made({ answers: [silent], terms: { signal: run.signal } })).result).toBeNull()
    expect(sent).toHaveLength(1)
  })

  test('a timeout longer than any timer does not fire at once', async () => {
    const terms = { timeoutMs: millis(1e12) }
    expect(await made({ answers: [later(5_000, () => answer(200))], terms, runMs: 1e11 })).toMatchObject({
      result: { ok: true },
      afterMs: 5_000,
    })
  })

  test('an internal error does not become a result', async () => {
    await expect(
      made({
        answers: [
          () => {
            throw new TypeError('ours')
          },
        ],
      }),
    ).rejects.toThrow('ours')
  })
})

describe('trying again', () => {
  const terms = { resilience: policy() }
  const failing: Answer = () => {
    throw new CallFailed('the connection was refused', null)
  }

  test('until something else comes, resting in between', async () => {
    const answers: Answer[] = [failing, () => answer(503), () => answer(200)]
    expect(await made({ answers, terms })).toMatchObject({ result: { status: 200 }, afterMs: 200 })
    expect(sent.map(({ at }) => at)).toEqual([0, 100, 200])
  })

  test('no more often than allowed; the last result stands', async () => {
    expect(await made({ answers: [failing, failing, () => answer(502)], terms })).toMatchObject({
      result: { status: 502, ok: false },
      afterMs: 200,
    })
    expect(sent).toHaveLength(3)
  })

  test('not what the policy does not name, and not without one', async () => {
    await made({ answers: [() => answer(503)], terms: { resilience: policy({ retryOn: ['TIMEOUT'] }) } })
    await made({ answers: [() => answer(503)] })
    await made({ answers: [() => answer(404)], terms })
    expect(sent).toHaveLength(3)
  })

  test('with a timeout of its own each time', async () => {
    expect(await made({ answers: [silent], terms: { ...terms, timeoutMs: millis(50) } })).toMatchObject({
      result: { error: { type: 'TIMEOUT' } },
      afterMs: 50 + 100 + 50 + 100 + 50,
    })
  })

  test('not when the rest does not fit: the last result stands at once', async () => {
    expect(await made({ answers: [() => answer(503)], terms, runMs: 101 })).toMatchObject({ afterMs: 100 })
    expect(sent).toHaveLength(2)
    startedAt = clock.now()
    expect(await made({ answers: [() => answer(503)], terms, runMs: 100 })).toMatchObject({
      result: { status: 503 },
      afterMs: 0,
    })
  })

  test('not after the run has ended meanwhile', async () => {
    const run = new AbortController()
    clock.setTimer(40, () => {
      run.abort()
    })
    expect(await made({ answers: [failing], terms: { ...terms, signal: run.signal } })).toEqual({
      result: null,
      afterMs: 40,
    })
    expect(sent).toHaveLength(1)
  })

  test('never what was refused', async () => {
    const refused: Answer = () => {
      throw new CallRefused(BLOCKED)
    }
    expect((await made({ answers: [refused], terms })).result).toEqual({
      ok: false,
      headers: {},
      body: null,
      error: { type: 'NETWORK', message: 'blocked by the private-network guard (--allow-private-network)' },
    })
    const long: Answer = () => answer(200, { truncated: true })
    expect((await made({ answers: [long], terms: { ...terms, mostBytes: 10 } })).result?.error).toEqual({
      type: 'NETWORK',
      message: 'the answer is longer than 10 bytes',
    })
    expect(sent).toHaveLength(2)
  })
})

describe('what is sent along', () => {
  test('the same key each time, and how much time is left', async () => {
    await made({ answers: [later(300, () => answer(500))], terms: { resilience: policy() }, runMs: 2_350 })
    expect(sent.map(({ call }) => call.headers)).toEqual([
      { Accept: 'application/json', 'Idempotency-Key': 'run/load/1', 'X-Curfew-Remaining-Ms': '2000' },
      { Accept: 'application/json', 'Idempotency-Key': 'run/load/1', 'X-Curfew-Remaining-Ms': '1950' },
      { Accept: 'application/json', 'Idempotency-Key': 'run/load/1', 'X-Curfew-Remaining-Ms': '1550' },
    ])
  })

  test("the author's own key, but not the author's own idea of the time", async () => {
    const call = { headers: { 'idempotency-key': 'mine', 'x-curfew-remaining-ms': '1' } }
    await made({ answers: [() => answer(200)], call })
    expect(sent[0]?.call.headers).toEqual({
      Accept: 'application/json',
      'idempotency-key': 'mine',
      'X-Curfew-Remaining-Ms': '2000',
    })
  })

  test('a key that a header can carry, whatever the states are called', async () => {
    await made({ answers: [() => answer(200)], terms: { idempotencyKey: 'run/prüfen ✓/1' } })
    expect(sent[0]?.call.headers['Idempotency-Key']).toBe('run/prU+FCfenU+20U+2713/1')
  })
})

describe('redirects', () => {
  const full = {
    method: 'POST',
    body: '{}',
    headers: {
      'Content-Type': 'application/json',
      Authorization: 'Bearer x',
      'X-Api-Key': 'k',
      Cookie: 'c',
      Accept: 'a',
    },
  }

  test('are followed as calls of their own, within the same time', async () => {
    const answers: Answer[] = [later(500, () => to('/y?z')), later(500, () => answer(200))]
    expect(await made({ answers })).toMatchObject({ result: { status: 200 }, afterMs: 1_000 })
    expect(sent.map(({ call }) => [call.url, call.headers['X-Curfew-Remaining-Ms']])).toEqual([
      ['https://a.example/x', '2000'],
      ['https://a.example/y?z', '1500'],
    ])
    startedAt = clock.now()
    expect(await made({ answers: [later(1_500, () => to('/again'))] })).toMatchObject({
      result: { error: { type: 'TIMEOUT' } },
      afterMs: 2_000,
    })
  })

  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [301, 'DELETE', 'DELETE'],
    [307, 'POST', 'POST'],
    [308, 'PUT', 'PUT'],
  ])('%d turns %s into %s', async (status, method, then) => {
    await made({ answers: [() => to('/y', status), () => answer(200)], call: { ...full, method } })
    const [, second] = sent
    expect(second?.call.method).toBe(then)
    expect(second?.call.body).toBe(then === method && method !== 'GET' ? '{}' : null)
    expect(second?.call.headers['Content-Type']).toBe(then === method ? 'application/json' : undefined)
    expect(second?.call.headers['Authorization']).toBe('Bearer x')
  })

  test.each(['https://b.example/', 'http://a.example/', 'https://a.example:444/', '//b.example/'])(
    'credentials do not go along to %s, nor come back',
    async (elsewhere) => {
      await made({
        answers: [() => to(elsewhere, 307), () => to('https://a.example/back', 307), () => answer(200)],
        call: full,
      })
      for (const { call } of sent.slice(1))
        expect(Object.keys(call.headers).sort()).toEqual([
          'Accept',
          'Content-Type',
          'Idempotency-Key',
          'X-Curfew-Remaining-Ms',
        ])
      expect(sent).toHaveLength(3)
    },
  )

  test.each([
    ['ftp://a.example/', 'a redirect leads to something that is neither http nor https'],
    ['file:///etc/passwd', 'a redirect leads to something that is neither http nor https'],
    ['javascript:alert(1)', 'a redirect leads to something that is neither http nor https'],
    ['http://[::1', 'a redirect leads to a URL that cannot be read'],
  ])('%s is not followed', async (location, message) => {
    const { result } = await made({ answers: [() => to(location)], terms: { resilience: policy() } })
    expect(result?.error).toEqual({ type: 'NETWORK', message })
    expect(sent).toHaveLength(1)
  })

  test('five are followed, and a sixth is not', async () => {
    const five = Array.from({ length: 5 }, () => () => to('/next'))
    expect((await made({ answers: [...five, () => answer(200)] })).result?.status).toBe(200)
    sent = []
    expect(
      (await made({ answers: [() => to('/round')], terms: { resilience: policy() } })).result?.error?.message,
    ).toBe('there are more than 5 redirects')
    expect(sent).toHaveLength(6)
  })

  test('a 3xx that leads nowhere is an answer like any other', async () => {
    expect((await made({ answers: [() => answer(302)] })).result).toMatchObject({ status: 302, ok: false })
    expect((await made({ answers: [() => to('/x', 304)] })).result).toMatchObject({ status: 304 })
  })

  test('the guard is asked at each of them, and is not asked twice', async () => {
    const guarded: Answer = ({ url }) => {
      if (url.includes('169.254')) throw new CallRefused(BLOCKED)
      return to('http://169.254.169.254/latest')
    }
    const { result } = await made({ answers: [guarded], terms: { resilience: policy() } })
    expect(result?.error).toEqual({ type: 'NETWORK', message: BLOCKED })
    expect(sent).toHaveLength(2)
  })
})

describe('a call with a secret', () => {
  const bearer = { secretRef: 'shop', header: 'authorization', scheme: 'bearer', username: null } as const
  const sentHeaders = (): OutgoingCall['headers'][] => sent.map(({ call }) => call.headers)

  test.each([
    [bearer, { authorization: 'Bearer open-sesame' }],
    [{ ...bearer, scheme: 'basic', username: 'ada' } as const, { authorization: 'Basic YWRhOm9wZW4tc2VzYW1l' }],
    [{ ...bearer, scheme: 'plain', header: 'x-api-key' } as const, { 'x-api-key': 'open-sesame' }],
  ])('sends it in one header', async (auth, expected) => {
    await made({
      answers: [() => answer(200)],
      call: { auth, headers: { Authorization: 'another', 'X-API-Key': 'x' } },
    })
    expect(sentHeaders()[0]).toMatchObject(expected)
    const names = Object.keys(sentHeaders()[0] ?? {}).map((name) => name.toLowerCase())
    expect(names.filter((name) => name === auth.header)).toHaveLength(1)
    expect(sent[0]?.call).not.toHaveProperty('auth')
  })

  test('does not send it to another host, nor back from there', async () => {
    const to =
      (location: string): Answer =>
      () =>
        answer(307, { headers: { location } })
    const answers = [to('/y'), to('https://b.example/z'), to('https://a.example/home'), () => answer(200)]
    await made({ answers, call: { auth: { ...bearer, header: 'x-plain', scheme: 'plain' } } })
    expect(sentHeaders().map((headers) => headers['x-plain'])).toEqual([
      'open-sesame',
      'open-sesame',
      undefined,
      undefined,
    ])
  })

  test('removes it from the answer, however it is spelled', async () => {
    const auth = { ...bearer, secretRef: 'payments', scheme: 'basic', username: 'ada' } as const
    const body = JSON.stringify({
      plain: 'pay "me"/now',
      basic: Buffer.from('ada:pay "me"/now').toString('base64'),
      url: `/x?key=${encodeURIComponent('pay "me"/now')}`,
      other: 7,
    })
    const headers = { 'content-type': 'application/json', 'x-echo': 'Basic pay "me"/now' }
    const { result } = await made({ answers: [() => answer(401, { headers, body })], call: { auth } })
    expect(result).toMatchObject({
      status: 401,
      headers: { 'X-Echo': 'Basic [secret]' },
      body: { plain: '[secret]', basic: '[secret]', url: '/x?key=[secret]', other: 7 },
    })
  })

  test('is not made, nor tried again, where the server does not know the secret', async () => {
    const auth = { ...bearer, secretRef: 'shop/unknown-token' }
    const { result } = await made({ answers: [() => answer(200)], call: { auth }, terms: { resilience: policy() } })
    expect(sent).toHaveLength(0)
    expect(result).toMatchObject({ ok: false, error: { type: 'NETWORK' } })
    expect(result?.error?.message).toMatch(/"shop\/unknown-token": set CURFEW_SECRET_SHOP_UNKNOWN_TOKEN, or add it to/)
  })
})

test('leaves the deadline to the end of the run, and is cut off shortly after it if nothing ended the run', async () => {
  const cut: number[] = []
  const cutOff = (abort: () => void): void => {
    cut.push(clock.now() - startedAt)
    abort()
  }
  const terms = { timeoutMs: millis(60_000), cutOff }
  expect(await made({ answers: [silent], terms, runMs: 5_000 })).toEqual({ result: null, afterMs: 5_025 })
  expect(cut).toEqual([5_025])
})
