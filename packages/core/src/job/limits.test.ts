import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ms, published, settingsWith } from '../builders.suite.ts'
import { hours, minutes, seconds, type Millis } from '../time/clock.ts'
import {
  DEFAULT_LIMITS,
  LIMIT_NAMES,
  type AskedLimits,
  type Caps,
  type Limit,
  type LimitName,
  type Limits,
  type LimitSettings,
} from './limits.ts'
import { settleAtClaim, settleAtEnqueue, type Claimant } from './settle.ts'

const settle = (
  sources: { publish?: AskedLimits; type?: AskedLimits & { caps?: Caps }; queue?: AskedLimits },
  server: LimitSettings = DEFAULT_LIMITS,
): Limits =>
  settleAtEnqueue({
    publish: sources.publish ?? {},
    type: sources.type === undefined ? null : { caps: {}, ...sources.type },
    queue: sources.queue ?? null,
    server,
  })

const known: Claimant = { handler: null, known: true, fetchVisibilityMs: null }
const unknown: Claimant = { ...known, known: false }
const claim = (
  limits: Limits,
  claimant: Partial<Claimant> = {},
  server = DEFAULT_LIMITS,
): ReturnType<typeof settleAtClaim> => settleAtClaim(limits, { ...known, ...claimant }, server)

describe('who speaks for a limit at enqueue', () => {
  const [one, two, three, four] = [{ ms: seconds(1) }, { ms: seconds(2) }, { ms: seconds(3) }, { ms: seconds(4) }]
  const asks = (name: LimitName, { ms: length }: { ms: Millis }): AskedLimits => ({ [name]: length })

  test.each(LIMIT_NAMES)('%s: publish before type before queue before the server default', (name) => {
    const server = settingsWith({}, { [name]: four.ms })
    const [publish, type, queue] = [asks(name, one), asks(name, two), asks(name, three)]
    expect(settle({ publish, type, queue }, server)[name]).toEqual({ ...one, source: 'publish' })
    expect(settle({ type, queue }, server)[name]).toEqual({ ...two, source: 'type' })
    expect(settle({ queue }, server)[name]).toEqual({ ...three, source: 'queue' })
    // The default visibility follows timeout and grace, so it waits for the claim.
    expect(settle({}, server)[name]).toEqual(name === 'visibility' ? null : { ...four, source: 'default' })
  })

  test('x_on_timeout: publish before type before queue before the server default', () => {
    const [publish, type, queue] = [{ onTimeout: 'retry' }, { onTimeout: 'discard' }, { onTimeout: 'retry' }] as const
    expect(settle({ publish, type, queue }).onTimeout).toEqual({ mode: 'retry', source: 'publish' })
    expect(settle({ type, queue }).onTimeout).toEqual({ mode: 'discard', source: 'type' })
    expect(settle({ queue }).onTimeout).toEqual({ mode: 'retry', source: 'queue' })
    expect(settle({}, settingsWith({}, { onTimeout: 'discard' })).onTimeout).toEqual({
      mode: 'discard',
      source: 'default',
    })
  })

  test('each field is settled for itself: a timeout at publish does not reset the mode a type declared', () => {
    const limits = settle({
      publish: { timeout: seconds(5) },
      type: { onTimeout: 'discard', timeout: seconds(9), grace: ms(7) },
    })
    expect(limits).toMatchObject({
      timeout: { ms: 5000, source: 'publish' },
      grace: { ms: 7, source: 'type' },
      onTimeout: { mode: 'discard', source: 'type' },
    })
  })

  test('without any settings the defaults of the specification hold: 1800 s, 30 s, 60 s, no total, no TTL, retry', () => {
    expect(settle({})).toEqual({
      timeout: { ms: minutes(30), source: 'default' },
      grace: { ms: seconds(30), source: 'default' },
      heartbeat: { ms: seconds(60), source: 'default' },
      visibility: null,
      total: null,
      ttl: null,
      onTimeout: { mode: 'retry', source: 'default' },
      caps: {},
    })
  })
})

describe('equal sources', () => {
  const length = fc.option(fc.constantFrom(...[1, 2, 12].map(ms)), { nil: undefined })
  const caps = fc.record(Object.fromEntries(LIMIT_NAMES.map((name) => [name, length]))) as fc.Arbitrary<Caps>
  const asked = fc
    .tuple(caps, fc.constantFrom(undefined, 'retry', 'discard'))
    .map(([lengths, onTimeout]) => ({ ...lengths, ...(onTimeout === undefined ? {} : { onTimeout }) }))
  const sources = fc.record({
    publish: asked,
    type: fc.option(fc.tuple(asked, caps).map(([limits, capped]) => ({ ...limits, caps: capped }))),
    queue: fc.option(asked),
  })

  test('get one frozen record, which other sources do not get', () => {
    const server = settingsWith({})
    fc.assert(
      fc.property(sources, (said) => {
        const limits = settleAtEnqueue({ ...said, server })
        expect(settleAtEnqueue({ ...structuredClone(said), server })).toBe(limits)
        // Other settings have seen no speaker yet.
        expect(limits).toEqual(settleAtEnqueue({ ...said, server: settingsWith({}) }))
        for (const part of [limits, ...Object.values(limits)]) expect(Object.isFrozen(part)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('caps', () => {
  test.each(LIMIT_NAMES)('%s is held down to the cap, and says so', (name) => {
    const server = settingsWith({ [name]: seconds(5) })
    expect(settle({ publish: { [name]: seconds(6) } }, server)[name]).toMatchObject({ ms: 5000, source: 'cap' })
    expect(settle({ publish: { [name]: seconds(5) } }, server)[name]).toEqual({ ms: 5000, source: 'publish' })
  })

  test('of two caps the smaller wins, wherever it stands', () => {
    const publish = { timeout: hours(1) }
    const capped = (type: number, server: number): Limit =>
      settle({ publish, type: { caps: { timeout: seconds(type) } } }, settingsWith({ timeout: seconds(server) }))
        .timeout
    expect(capped(10, 20)).toMatchObject({ ms: 10_000, source: 'cap' })
    expect(capped(20, 10)).toMatchObject({ ms: 10_000, source: 'cap' })
  })

  test('a cap bounds the server default too', () => {
    expect(settle({}, settingsWith({ timeout: seconds(60) })).timeout).toMatchObject({ ms: 60_000, source: 'cap' })
  })

  test('a cap on an absent total or TTL sets it', () => {
    const limits = settle({ type: { caps: { total: seconds(90) } } }, settingsWith({ ttl: seconds(30) }))
    expect(limits.total).toEqual({ ms: 90_000, source: 'cap' })
    expect(limits.ttl).toEqual({ ms: 30_000, source: 'cap' })
  })

  test('a cap on what is absent for a worker that never introduced itself sets neither grace nor a stall clock', () => {
    const server = settingsWith({ grace: seconds(10), heartbeat: seconds(45) })
    const limits = settle({}, server)
    expect(settleAtClaim(limits, unknown, server)).toMatchObject({
      grace: { ms: 0, source: 'default' },
      heartbeat: null,
    })
    expect(settleAtClaim(limits, known, server)).toMatchObject({ grace: { ms: 10_000 }, heartbeat: { ms: 45_000 } })
  })

  test('a default visibility is capped as well', () => {
    const server = settingsWith({ visibility: seconds(20) })
    expect(claim(settle({}, server), {}, server).visibility).toMatchObject({ ms: 20_000, source: 'cap' })
  })

  test('the values a handler or a FETCH brings are held down by the caps that held at enqueue', () => {
    const limits = settle({
      type: { caps: { timeout: seconds(5), grace: ms(1), heartbeat: ms(2), visibility: ms(3) } },
    })
    const handler = { timeout: hours(1), grace: hours(1), heartbeat: hours(1) }
    expect(claim(limits, { handler, fetchVisibilityMs: hours(1) })).toMatchObject({
      timeout: { ms: 5000, source: 'cap' },
      grace: { ms: 1, source: 'cap' },
      heartbeat: { ms: 2, source: 'cap' },
      visibility: { ms: 3, source: 'cap' },
    })
  })

  test('a published value that was capped is still a published one: no handler replaces it', () => {
    const server = settingsWith({ timeout: seconds(100) })
    const limits = settle({ publish: { timeout: seconds(1000) } }, server)
    expect(claim(limits, { handler: { timeout: seconds(50) } }, server).timeout).toMatchObject({
      ms: 100_000,
      source: 'cap',
    })
  })

  test("a queue's visibility that was capped still ranks after the one a FETCH brings", () => {
    const limits = settle({ queue: { visibility: hours(1) } }, settingsWith({ visibility: minutes(10) }))
    expect(claim(limits, { fetchVisibilityMs: seconds(30) }).visibility).toEqual({ ms: 30_000, source: 'fetch' })
    expect(claim(limits).visibility).toMatchObject({ ms: minutes(10), source: 'cap' })
  })
})

describe('what a handler brings at the claim', () => {
  const handler = { timeout: seconds(7), grace: seconds(8), heartbeat: seconds(9), onTimeout: 'discard' } as const

  test('it wins over type, queue and default', () => {
    for (const from of [
      settle({ type: { timeout: seconds(1), grace: seconds(1), heartbeat: seconds(1), onTimeout: 'retry' } }),
      settle({ queue: { timeout: seconds(1), grace: seconds(1), heartbeat: seconds(1), onTimeout: 'retry' } }),
      settle({}),
    ]) {
      expect(claim(from, { handler })).toMatchObject({
        timeout: { ms: 7000, source: 'handler' },
        grace: { ms: 8000, source: 'handler' },
        heartbeat: { ms: 9000, source: 'handler' },
        onTimeout: { mode: 'discard', source: 'handler' },
      })
    }
  })

  test('it never replaces what was published', () => {
    const limits = published({ timeout: seconds(1), grace: ms(0), heartbeat: seconds(3), onTimeout: 'retry' })
    expect(claim(limits, { handler })).toMatchObject({
      timeout: { ms: 1000, source: 'publish' },
      grace: { ms: 0, source: 'publish' },
      heartbeat: { ms: 3000, source: 'publish' },
      onTimeout: { mode: 'retry', source: 'publish' },
    })
  })

  test('fields it leaves out stay as they were settled at enqueue', () => {
    const limits = settle({ type: { timeout: seconds(1), grace: seconds(2) } })
    expect(claim(limits, { handler: { grace: seconds(5) } })).toMatchObject({
      timeout: { ms: 1000, source: 'type' },
      grace: { ms: 5000, source: 'handler' },
    })
  })
})

describe('visibility', () => {
  test('publish and type before FETCH before queue before the default', () => {
    const fetchVisibilityMs = seconds(30)
    const from = (limits: Limits): Limit => claim(limits, { fetchVisibilityMs }).visibility
    expect(from(published({ visibility: seconds(1) }))).toEqual({ ms: 1000, source: 'publish' })
    expect(from(settle({ type: { visibility: seconds(2) } }))).toEqual({ ms: 2000, source: 'type' })
    expect(from(settle({ queue: { visibility: seconds(3) } }))).toEqual({ ms: 30_000, source: 'fetch' })
    expect(from(settle({}))).toEqual({ ms: 30_000, source: 'fetch' })
    expect(claim(settle({ queue: { visibility: seconds(3) } })).visibility).toEqual({ ms: 3000, source: 'queue' })
  })

  test('the default is 1800 s, or the whole attempt with its grace where that is longer', () => {
    expect(claim(published({ timeout: seconds(10) })).visibility).toEqual({ ms: seconds(1800), source: 'default' })
    expect(claim(published({ timeout: hours(1), grace: minutes(2) })).visibility.ms).toBe(minutes(62))
    expect(claim(published({})).visibility.ms).toBe(seconds(1830))
    expect(settleAtClaim(published({ timeout: hours(1) }), unknown, DEFAULT_LIMITS).visibility.ms).toBe(hours(1))
  })
})

describe('what depends on the worker', () => {
  test('the default grace is 30 s for a known worker and nothing for one that never introduced itself', () => {
    expect(claim(published({})).grace).toEqual({ ms: 30_000, source: 'default' })
    expect(settleAtClaim(published({}), unknown, DEFAULT_LIMITS).grace).toEqual({ ms: 0, source: 'default' })
  })

  test('a grace that was set is always honoured', () => {
    expect(settleAtClaim(published({ grace: seconds(5) }), unknown, DEFAULT_LIMITS).grace.ms).toBe(5000)
    expect(settleAtClaim(settle({ type: { grace: seconds(6) } }), unknown, DEFAULT_LIMITS).grace.ms).toBe(6000)
  })

  test('an unknown worker is judged by heartbeats only where the limit was set, or the server is configured so', () => {
    expect(settleAtClaim(published({}), unknown, DEFAULT_LIMITS).heartbeat).toBeNull()
    expect(settleAtClaim(published({ heartbeat: seconds(5) }), unknown, DEFAULT_LIMITS).heartbeat?.ms).toBe(5000)
    expect(settleAtClaim(published({}), unknown, { ...DEFAULT_LIMITS, judgeUnknownWorkers: true }).heartbeat?.ms).toBe(
      60_000,
    )
    expect(claim(published({})).heartbeat).toEqual({ ms: 60_000, source: 'default' })
  })
})

describe('a total bounds each attempt', () => {
  test('the timeout is held down to the total, keeps its own source, and what it was', () => {
    const byDefault = { ms: 60_000, source: 'default', whole: 1_800_000 }
    expect(published({ total: seconds(60) }).timeout).toEqual(byDefault)
    expect(settle({ publish: { timeout: seconds(90) }, type: { total: seconds(60) } }).timeout).toEqual({
      ms: 60_000,
      source: 'publish',
      whole: 90_000,
    })
    expect(settle({}, settingsWith({ total: seconds(60) })).timeout).toEqual(byDefault)
  })

  test('a timeout a handler brings is held down too', () => {
    const limits = published({ total: seconds(60) })
    const held = { ms: 60_000, source: 'handler', whole: hours(1) }
    expect(claim(limits, { handler: { timeout: hours(1) } }).timeout).toEqual(held)
  })

  test('a longer total changes nothing', () => {
    expect(published({ total: hours(2), timeout: hours(1) }).timeout).toEqual({ ms: hours(1), source: 'publish' })
  })
})

describe('always', () => {
  const length = fc.integer({ min: 1, max: 10_000 }).map(ms)
  const some = fc.record(
    { timeout: length, total: length, ttl: length, grace: length, heartbeat: length, visibility: length },
    { requiredKeys: [] },
  ) as fc.Arbitrary<AskedLimits>
  const sources = fc.record({
    publish: some,
    type: fc.option(fc.tuple(some, some).map(([asked, caps]) => ({ ...asked, caps }))),
    queue: fc.option(some),
    server: fc.tuple(some, some).map(([caps, defaults]) => settingsWith(caps as Caps, defaults as object)),
  })
  const claimant = fc.record({ handler: fc.option(some), known: fc.boolean(), fetchVisibilityMs: fc.option(length) })

  test('no effective limit exceeds any cap, whatever its source', () => {
    fc.assert(
      fc.property(sources, claimant, (who, by) => {
        const limits = settleAtEnqueue(who)
        const attempt = settleAtClaim(limits, by, who.server)
        for (const name of LIMIT_NAMES) {
          const effective = [limits[name], name in attempt ? attempt[name as 'timeout'] : null]
          for (const cap of [who.server.caps[name], who.type?.caps[name]]) {
            if (cap !== undefined) for (const limit of effective) expect(limit?.ms ?? 0).toBeLessThanOrEqual(cap)
          }
        }
      }),
    )
  })

  test('no attempt may run longer than the total', () => {
    fc.assert(
      fc.property(sources, claimant, (who, by) => {
        const limits = settleAtEnqueue(who)
        const total = limits.total?.ms ?? Infinity
        expect(limits.timeout.ms).toBeLessThanOrEqual(total)
        expect(settleAtClaim(limits, by, who.server).timeout.ms).toBeLessThanOrEqual(total)
      }),
    )
  })

  test('the source of a limit is always one that spoke, and its length theirs (or the cap, or the total)', () => {
    fc.assert(
      fc.property(sources, claimant, (who, by) => {
        const limits = settleAtEnqueue(who)
        const attempt = settleAtClaim(limits, by, who.server)
        for (const name of LIMIT_NAMES) {
          const said: Partial<Record<string, number | null | undefined>> = {
            publish: who.publish[name],
            handler: by.handler?.[name],
            type: who.type?.[name],
            queue: who.queue?.[name],
            fetch: name === 'visibility' ? by.fetchVisibilityMs : undefined,
            default: name === 'visibility' ? 0 : who.server.defaults[name],
            cap: Math.min(who.server.caps[name] ?? Infinity, who.type?.caps[name] ?? Infinity),
          }
          for (const limit of [limits[name], name in attempt ? attempt[name as 'timeout'] : null]) {
            if (limit === null) continue
            expect(said[limit.source] ?? null).not.toBeNull()
            const isDefaultVisibility = name === 'visibility' && limit.source === 'default'
            const isUnknownGrace = name === 'grace' && !by.known && limit.ms === 0
            if (isDefaultVisibility || isUnknownGrace) continue
            const lengths = [said[limit.source], name === 'timeout' ? limits.total?.ms : undefined]
            expect(lengths).toContain(limit.ms)
          }
        }
      }),
    )
  })

  test('what was published is never overruled but by a cap or the total', () => {
    fc.assert(
      fc.property(sources, claimant, (who, by) => {
        const limits = settleAtEnqueue(who)
        const attempt = settleAtClaim(limits, by, who.server)
        for (const name of ['timeout', 'grace', 'heartbeat', 'visibility'] as const) {
          const asked = who.publish[name]
          if (asked === undefined) continue
          const bound = Math.min(
            asked,
            limits.caps[name] ?? Infinity,
            name === 'timeout' ? (limits.total?.ms ?? Infinity) : Infinity,
          )
          expect(attempt[name]?.ms).toBe(bound)
        }
      }),
    )
  })
})
