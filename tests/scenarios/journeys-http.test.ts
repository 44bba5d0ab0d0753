/** Journeys as their callers see them, on the clock turned by hand. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { at, idle, TestServer, type Reply } from '../harness.ts'
import { begin, call, deploy, jsonata, PLAIN, runUrl, succeed, timer, Upstream, wait } from '../journey-stage.ts'

let server: TestServer
let upstream: Upstream

beforeEach(async () => {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send })
})
afterEach(() => server.close())

const ASYNC = { lifecycle: { startMode: 'async' } }
const approval = { start: 'approve', states: { approve: wait(), done: succeed } }

/** Starts a run that does not make its caller wait; gives its id. */
async function started(spec: object, body: object = {}): Promise<string> {
  await deploy(server, { ...ASYNC, ...spec })
  const { body: reply } = await begin(server, body)
  await idle()
  return String(reply['journeyId'])
}

const submit = (id: string, body: unknown, step = 'approve'): Promise<Reply> =>
  server.call('POST', `${runUrl(id)}/steps/${step}`, body, PLAIN)
const cancel = (id: string): Promise<Reply> => server.call('POST', `${runUrl(id)}/steps/cancel`)
const status = async (id: string): Promise<Reply['body']> => (await server.get(runUrl(id))).body
const isProblem = (reply: Reply, code: number): void => {
  expect([reply.status, reply.headers['Content-Type']]).toEqual([code, 'application/problem+json'])
  expect(reply.body).toMatchObject({ status: code })
}

describe('a start', () => {
  test('answers with the outcome when the run is over, failed or not', async () => {
    await deploy(server, { start: 'done', states: { done: succeed } })
    const reply = await begin(server, { order: 7 })
    expect([reply.status, reply.headers['Content-Type']]).toEqual([200, 'application/json'])
    expect(reply.body).toMatchObject({
      phase: 'SUCCEEDED',
      status: 'SUCCEEDED',
      output: { order: 7 },
      error: null,
      terminationKind: 'Success',
      terminatedAtState: 'done',
      startedAt: at(0),
      endedAt: at(0),
      deadlineAt: at(30_000),
      limitedBy: 'spec',
    })
    const failing = { start: 'no', states: { no: { type: 'fail', errorCode: 'NO', reason: 'because' } } }
    await deploy(server, failing, { name: 'failing' })
    const failed = await begin(server, {}, '', 'failing')
    expect(failed.status).toBe(200)
    expect(failed.body).toMatchObject({ phase: 'FAILED', status: 'NO', error: { code: 'NO', reason: 'because' } })
  })

  test('answers with the status at the first wait, timers and calls included', async () => {
    const states = { nap: timer('PT5S', 'ask'), ask: call({}, 'approve'), approve: wait(), done: succeed }
    await deploy(server, { start: 'nap', states })
    const reply = begin(server)
    await server.advance(5_000)
    expect(upstream.calls).toHaveLength(1)
    await upstream.answer({ fine: true })
    expect((await reply).body).toMatchObject({ phase: 'RUNNING', currentState: 'approve', remainingMs: 25_000 })
  })

  test('is answered at the deadline when the run is not over by then', async () => {
    await deploy(server, { start: 'ask', states: { ask: call({ timeoutMs: 60_000 }), done: succeed } })
    let answered: Reply | null = null
    void begin(server).then((reply) => (answered = reply))
    await server.advance(29_999)
    expect(answered).toBeNull()
    await server.advance(1)
    expect(answered).toMatchObject({
      status: 200,
      body: { phase: 'FAILED', status: 'TOO_SLOW', terminationKind: 'Timeout', endedAt: at(30_000) },
    })
  })

  test('does not wait where the definition says so', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const reply = await begin(server, {})
    const here = runUrl(String(reply.body['journeyId']))
    expect([reply.status, reply.headers['Location']]).toEqual([202, here])
    expect(reply.body).toMatchObject({ journeyName: 'story', statusUrl: here, _links: { self: { href: here } } })
  })

  test('needs no body, refuses one that does not fit, and knows its names and versions', async () => {
    const input = { schema: { type: 'object', required: ['order'] } }
    await deploy(server, { input, start: 'done', states: { done: succeed } })
    const refused = await begin(server)
    isProblem(refused, 400)
    expect(refused.body['errors']).toMatchObject([{ keyword: 'required' }])
    isProblem(await begin(server, '[1]'), 400)
    isProblem(await begin(server, '{'), 400)
    isProblem(await begin(server, {}, '', 'unknown'), 404)
    isProblem(await begin(server, {}, '?version=9.0.0'), 404)
    await deploy(server, { start: 'done', states: { done: succeed } }, { version: '2.0.0' })
    expect((await begin(server)).body).toMatchObject({ phase: 'SUCCEEDED', journeyVersion: '2.0.0' })
    expect((await begin(server, { order: 1 }, '?version=1.0.0')).body).toMatchObject({ journeyVersion: '1.0.0' })
  })

  test('may inherit the deadline of its caller', async () => {
    await deploy(server, approval)
    const job = await server.start({ total_timeout: 10 })
    const parent = encodeURIComponent(JSON.stringify({ job_id: job.id }))
    const reply = await begin(server, {}, `?x_parent=${parent}&x_inherit_deadline=true`)
    expect(reply.body).toMatchObject({ deadlineAt: at(10_000), limitedBy: 'parent', effectiveMaxDurationSec: 10 })
    isProblem(await begin(server, {}, '?x_inherit_deadline=true'), 400)
    isProblem(await begin(server, {}, '?x_parent=job'), 400)
  })

  test('whose caller hangs up goes on', async () => {
    await deploy(server, { start: 'nap', states: { nap: timer('PT5S'), done: succeed } })
    const gone = new AbortController()
    const request = {
      method: 'POST',
      url: '/api/v1/journeys/story/start',
      headers: PLAIN,
      body: '',
      signal: gone.signal,
    }
    const answer = server.handler(request)
    await idle()
    gone.abort()
    await answer
    await server.advance(5_000)
    const { items } = (await server.get('/api/v1/journeys')).body
    expect(items).toMatchObject([{ phase: 'SUCCEEDED' }])
  })

  test('is answered as things are when the server stops', async () => {
    await deploy(server, { start: 'nap', states: { nap: timer('PT5S'), done: succeed } })
    const answer = begin(server)
    await idle()
    server.engine.beginClose()
    expect(await answer).toMatchObject({ status: 200, body: { phase: 'RUNNING', currentState: 'nap' } })
  })
})

describe('the status of a run', () => {
  test('tells where it is, how long it may still take, and where to go next', async () => {
    const id = await started(approval)
    await server.advance(4_000)
    expect(await status(id)).toMatchObject({
      journeyId: id,
      journeyName: 'story',
      phase: 'RUNNING',
      currentState: 'approve',
      startedAt: at(0),
      deadlineAt: at(30_000),
      remainingMs: 26_000,
      effectiveMaxDurationSec: 30,
      limitedBy: 'spec',
      tags: [],
      attributes: {},
      _links: {
        self: { href: runUrl(id), method: 'GET' },
        result: { href: `${runUrl(id)}/result`, method: 'GET' },
        cancel: { href: `${runUrl(id)}/steps/cancel`, method: 'POST' },
        'step:approve': { href: `${runUrl(id)}/steps/approve`, method: 'POST' },
        approve: { href: `${runUrl(id)}/steps/approve`, method: 'POST' },
      },
    })
  })

  test('is never RUNNING past the deadline', async () => {
    const id = await started(approval)
    await server.advance(30_000)
    expect(await status(id)).toMatchObject({ phase: 'FAILED', remainingMs: 0, updatedAt: at(30_000) })
  })

  test('has no links where the definition turned them off', async () => {
    const id = await started({ ...approval, httpSurface: { links: { enabled: false } } })
    expect(await status(id)).not.toHaveProperty('_links')
    expect((await cancel(id)).body).not.toHaveProperty('_links')
    expect((await server.get(`${runUrl(id)}/result`)).body).not.toHaveProperty('_links')
  })

  test('of an unknown run is not found', async () => {
    for (const path of ['', '/result', '/explain']) isProblem(await server.get(`${runUrl('unknown')}${path}`), 404)
    isProblem(await submit('unknown', {}), 404)
    isProblem(await cancel('unknown'), 404)
  })
})

describe('the result of a run', () => {
  test('is refused while the run goes on, and told when it is over', async () => {
    const id = await started(approval)
    const early = await server.get(`${runUrl(id)}/result`)
    isProblem(early, 409)
    await submit(id, { ok: true })
    expect((await server.get(`${runUrl(id)}/result`)).body).toMatchObject({ phase: 'SUCCEEDED' })
  })

  test('can be waited for', async () => {
    const id = await started(approval)
    const result = server.get(`${runUrl(id)}/result?wait=true&timeout=5`)
    await server.advance(5_000)
    isProblem(await result, 409)
    const again = server.get(`${runUrl(id)}/result?wait=true`)
    await server.advance(1_000)
    await submit(id, { ok: true })
    expect((await again).body).toMatchObject({ phase: 'SUCCEEDED', endedAt: at(6_000) })
  })

  test('is to be asked for again when the server stops before the run is over', async () => {
    const id = await started(approval)
    const result = server.get(`${runUrl(id)}/result?wait=true`)
    await server.advance(600)
    server.engine.beginClose()
    isProblem(await result, 503)
    isProblem(await server.get(`${runUrl(id)}/result?wait=true`), 503)
    isProblem(await server.get(`${runUrl(id)}/result`), 409)
  })

  test('has the name its definition gives to such an end, and what it shows of its data', async () => {
    const outcomes = {
      Broken: { when: { phase: 'SUCCEEDED', predicate: jsonata('context.nothing.there') } },
      Large: { when: { phase: 'SUCCEEDED', predicate: jsonata('context.total > 100') } },
      Small: { when: { phase: 'SUCCEEDED' } },
    }
    const output = { response: { outputVar: 'report', schema: { type: 'object' } } }
    await deploy(server, { outcomes, output, start: 'done', states: { done: succeed } })
    const reply = await begin(server, { total: 101, report: { reportId: 'r1', phase: 'MINE', endedAt: 'never' } })
    expect(reply.body).toMatchObject({ outcomeId: 'Large', reportId: 'r1', phase: 'SUCCEEDED', endedAt: at(0) })
    expect((await begin(server, { total: 1 })).body).toMatchObject({ outcomeId: 'Small' })
  })
})

describe('a submission', () => {
  test('takes the run on and shows where it is then', async () => {
    const states = {
      approve: wait({ response: { outputVar: 'hint', schema: { type: 'object' } } }, 'second'),
      second: wait(),
      done: succeed,
    }
    const id = await started({ start: 'approve', states }, { hint: { price: 3, phase: 'MINE' } })
    const reply = await submit(id, { ok: true })
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({ phase: 'RUNNING', currentState: 'second', price: 3 })
  })

  test('that follows its start at once waits until the server has entered the step', async () => {
    // The walk to the step takes several turns of the event loop.
    const transform = { mapper: jsonata('context.n + 1'), target: { kind: 'var' }, resultVar: 'n' }
    const way = Array.from({ length: 200 }, (_, n) => {
      const next = n === 199 ? 'approve' : `s${String(n + 1)}`
      return [`s${String(n)}`, { type: 'transform', transform, next }] as const
    })
    await deploy(server, {
      ...ASYNC,
      start: 's0',
      states: { ...Object.fromEntries(way), approve: wait(), done: succeed },
    })
    const { body } = await begin(server, { n: 0 })
    const reply = await submit(String(body['journeyId']), { ok: true })
    expect([reply.status, reply.body['phase']]).toEqual([200, 'SUCCEEDED'])
  })

  test('to a step the run does not lead to is refused once the run rests', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const { body } = await begin(server)
    isProblem(await submit(String(body['journeyId']), { ok: true }, 'elsewhere'), 409)
  })

  test('that does not fit leaves the step open', async () => {
    const id = await started(approval)
    const refused = await submit(id, { nonsense: true })
    isProblem(refused, 400)
    expect(refused.body['errors']).toMatchObject([{ keyword: 'required' }])
    expect(await status(id)).toMatchObject({ currentState: 'approve' })
    expect((await submit(id, { ok: 1 })).body).toMatchObject({ phase: 'SUCCEEDED', remainingMs: 0 })
  })

  test('to a step that is not open is a conflict, and so is one that comes late', async () => {
    const states = { approve: wait({}, 'second'), second: wait(), done: succeed }
    const id = await started({ start: 'approve', states })
    isProblem(await submit(id, { ok: 1 }, 'second'), 409)
    await server.advance(30_000)
    const late = await submit(id, { ok: 1 })
    isProblem(late, 409)
    expect(late.body).toMatchObject({ reason: 'deadline_reached' })
    expect(await server.metric('curfew_late_results_total', { operation: 'step', reason: 'deadline_reached' })).toBe(1)
    expect(await server.metric('curfew_late_results_total', { operation: 'step', reason: 'not_active' })).toBe(1)
  })

  test('that came in time is answered with what followed, even if the time ran out then', async () => {
    const states = { approve: wait({}, 'ask'), ask: call({ timeoutMs: 60_000 }), done: succeed }
    const id = await started({ start: 'approve', states })
    await server.advance(29_000)
    const reply = submit(id, { ok: 1 })
    await server.advance(1_000)
    expect(await reply).toMatchObject({ status: 200, body: { phase: 'FAILED', currentState: 'ask' } })
  })

  test('is answered when only time is awaited', async () => {
    const states = { approve: wait({}, 'nap'), nap: timer('PT5S'), done: succeed }
    const id = await started({ start: 'approve', states })
    expect((await submit(id, { ok: 1 })).body).toMatchObject({ phase: 'RUNNING', currentState: 'nap' })
  })
})

describe('a cancel', () => {
  test('ends the run, once, with or without a body', async () => {
    const id = await started(approval)
    const reply = await cancel(id)
    expect([reply.status, reply.body['phase']]).toEqual([200, 'FAILED'])
    const outcome = (await server.get(`${runUrl(id)}/result`)).body
    expect(outcome).toMatchObject({ status: 'JOURNEY_CANCELLED', terminationKind: 'Cancel', endedAt: at(0) })
    await server.advance(1_000)
    const again = await server.call('POST', `${runUrl(id)}/steps/cancel`, {}, PLAIN)
    expect([again.status, again.body['updatedAt']]).toEqual([200, at(0)])
    isProblem(await submit(id, { ok: 1 }), 409)
  })

  test('is refused where the definition does not allow it, unless the run is over', async () => {
    const id = await started({ ...approval, lifecycle: { startMode: 'async', cancellable: false } })
    expect((await status(id))['_links']).not.toHaveProperty('cancel')
    isProblem(await cancel(id), 409)
    await submit(id, { ok: 1 })
    expect((await cancel(id)).body).toMatchObject({ phase: 'SUCCEEDED' })
  })
})

describe('a list of runs', () => {
  const ids = async (query: string): Promise<string[]> =>
    ((await server.get(`/api/v1/journeys${query}`)).body.items as unknown as { journeyId: string }[]).map(
      ({ journeyId }) => journeyId,
    )

  test('is newest first, in pages, and by what was asked for', async () => {
    const metadata = { bindings: { attributes: { fromPayload: { subjectId: { path: 'user' } } } } }
    await deploy(server, { ...ASYNC, ...approval, metadata }, { tags: ['orders'] })
    const all: string[] = []
    for (const user of ['u1', 'u2', 'u1']) {
      all.unshift(String((await begin(server, { user })).body['journeyId']))
      await server.advance(1)
    }
    await cancel(all[0] ?? '')
    expect(await ids('')).toEqual(all)
    const page = (await server.get('/api/v1/journeys?limit=2')).body
    expect(page.items).toHaveLength(2)
    const next = (await server.get(`/api/v1/journeys?limit=2&pageToken=${String(page['nextPageToken'])}`)).body
    expect(next).toMatchObject({ items: [{ journeyId: all[2] }], nextPageToken: null })
    expect(await ids('?phase=RUNNING')).toEqual(all.slice(1))
    expect(await ids('?subjectId=u1')).toEqual([all[0], all[2]])
    expect(await ids('?tag=orders&journeyName=story')).toEqual(all)
    expect(await ids('?tag=other')).toEqual([])
    expect(await ids('?journeyName=other')).toEqual([])
    expect(await ids('?tenantId=t')).toEqual([])
    isProblem(await server.get('/api/v1/journeys?phase=Failed'), 400)
    isProblem(await server.get('/api/v1/journeys?pageToken=x'), 400)
    isProblem(await server.get('/api/v1/journeys?limit=0'), 400)
  })
})

describe('branches side by side', () => {
  const branch = (name: string): object => ({
    name,
    start: name,
    states: { [name]: wait({ response: { outputVar: 'hint', schema: { type: 'object' } } }), done: succeed },
  })
  const fork = {
    start: 'fork',
    states: {
      fork: {
        type: 'parallel',
        parallel: {
          branches: [branch('kyc'), branch('risk')],
          join: { strategy: 'allOf', mapper: jsonata('branches'), resultVar: 'both' },
        },
        next: 'done',
      },
      done: succeed,
    },
  }

  test('are all named while several are open, and each can be submitted to', async () => {
    const id = await started(fork, { hint: { price: 3 } })
    expect(await status(id)).toMatchObject({
      currentState: 'fork',
      activeStates: ['fork/kyc/kyc', 'fork/risk/risk'],
      _links: { 'step:kyc': { method: 'POST' }, 'step:risk': { method: 'POST' } },
    })
    const { body } = await submit(id, { ok: 1 }, 'kyc')
    expect(body).toMatchObject({ currentState: 'fork/risk/risk', price: 3 })
    expect(body).not.toHaveProperty('activeStates')
    expect(body['_links']).not.toHaveProperty('step:kyc')
    isProblem(await submit(id, { ok: 1 }, 'kyc'), 409)
    expect((await submit(id, { ok: 1 }, 'risk')).body).toMatchObject({ phase: 'SUCCEEDED', currentState: 'done' })
  })

  test('end together at the deadline, in the state around them', async () => {
    const id = await started(fork)
    await server.advance(30_000)
    expect((await server.get(`${runUrl(id)}/result`)).body).toMatchObject({ terminatedAtState: 'fork' })
    const labels = { journey_name: 'story', kind: 'Journey', limited_by: 'spec', at_state_type: 'parallel' }
    expect(await server.metric('journey_run_timeouts_total', labels)).toBe(1)
    const { body } = await server.get(`${runUrl(id)}/explain`)
    expect(body['states']).toMatchObject([{ state: 'fork' }, { state: 'fork/kyc/kyc' }, { state: 'fork/risk/risk' }])
  })
})

describe('a compensation', () => {
  test('and the run it cleans up after point to each other', async () => {
    const compensation = { mode: 'async', start: 'undo', states: { undo: succeed } }
    const id = await started({ ...approval, compensation })
    await cancel(id)
    await idle()
    const outcome = (await server.get(`${runUrl(id)}/result`)).body
    const other = String(outcome['compensatedBy'])
    expect(outcome).toMatchObject({ _links: { compensatedBy: { href: runUrl(other) } } })
    const cleaned = (await server.get(`${runUrl(other)}/result`)).body
    expect(cleaned).toMatchObject({ kind: 'Compensation', compensates: id, phase: 'SUCCEEDED' })
  })
})

describe('where the time went', () => {
  const states = { nap: timer('PT5S', 'approve'), approve: wait({ timeoutSec: 8, onTimeout: 'done' }), done: succeed }

  test('is explained state by state', async () => {
    const id = await started({ start: 'nap', states })
    await server.advance(13_000)
    const { body } = await server.get(`${runUrl(id)}/explain`)
    expect(body).toMatchObject({
      journeyId: id,
      phase: 'SUCCEEDED',
      budget: { limitMs: 30_000, limitedBy: 'spec', spentMs: 13_000 },
      states: [
        { state: 'nap', type: 'timer', startsAfterMs: 0, durationMs: 5_000 },
        { state: 'approve', type: 'wait', startsAfterMs: 5_000, durationMs: 8_000, limitMs: 8_000, note: 'timeout' },
        { state: 'done', type: 'succeed', durationMs: 0 },
      ],
      ending: { terminationKind: 'Success', marginMs: 17_000 },
    })
    expect(body['text']).toContain('Most of the time went into approve: 8 s.')
  })

  test('is explained by what the run left to a state, where that is less than its limit', async () => {
    const late = { nap: timer('PT25S', 'approve'), approve: wait({ timeoutSec: 20, onTimeout: 'done' }), done: succeed }
    const id = await started({ start: 'nap', states: late })
    await server.advance(30_000)
    const { body } = await server.get(`${runUrl(id)}/explain`)
    expect(body).toMatchObject({ states: [{}, { limitMs: 20_000, effectiveMs: 5_000, clampedBy: 'maxDurationSec' }] })
    expect(body['text']).toContain('of at most 5 s: shortened from 20 s by the deadline of the run')
    expect((await server.get(`/journeys/${id}`)).text).toContain('shortened from 20 s by the deadline of the run')
  })

  test('is drawn on a page that loads nothing', async () => {
    const id = await started({ start: 'nap', states })
    const running = await server.get(`/journeys/${id}`)
    expect([running.status, running.headers['Content-Type']]).toEqual([200, 'text/html; charset=utf-8'])
    expect(running.headers['Content-Security-Policy']).toContain("default-src 'none'")
    expect(running.text).toContain('http-equiv="refresh"')
    await server.advance(13_000)
    const { text } = await server.get(`/journeys/${id}`)
    expect(text).toContain('succeeded')
    expect(text).toContain('aria-label="from 5 s for 8 s"')
    expect(await server.get('/journeys/unknown')).toMatchObject({ status: 404 })
  })
})

describe('what is counted and told', () => {
  test('every run once when it starts and once when it ends', async () => {
    const id = await started(approval)
    await server.advance(30_000)
    expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.timeout'])
    expect((await server.events(id)).at(-1)?.data).toMatchObject({
      journey_id: id,
      journey_name: 'story',
      journey_version: '1.0.0',
      kind: 'Journey',
      phase: 'FAILED',
      termination_kind: 'Timeout',
      terminated_at_state: 'approve',
      error: { code: 'TOO_SLOW', reason: 'it took too long' },
      deadline: at(30_000),
      overshoot_ms: 0,
    })
    const names = { journey_name: 'story', journey_version: '1.0.0', kind: 'Journey' }
    expect(await server.metric('journey_runs_started_total', names)).toBe(1)
    expect(await server.metric('journey_runs_completed_total', { ...names, phase: 'FAILED' })).toBe(1)
    expect(
      await server.metric('journey_run_timeouts_total', {
        journey_name: 'story',
        kind: 'Journey',
        limited_by: 'spec',
        at_state_type: 'wait',
      }),
    ).toBe(1)
    expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'run' })).toBe(1)
    expect(server.logged.filter(({ message }) => message === 'a run ended: Timeout')).toMatchObject([
      { level: 'info', fields: { journeyId: id, errorCode: 'TOO_SLOW', durationMs: 30_000 } },
    ])
  })

  test('how late waits and timers were noticed', async () => {
    const states = { nap: timer('PT5S', 'approve'), approve: wait({ timeoutSec: 8, onTimeout: 'done' }), done: succeed }
    await started({ start: 'nap', states })
    await server.advance(13_000)
    expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'timer' })).toBe(1)
    expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'wait' })).toBe(1)
    expect(await server.metric('journey_deadline_margin_seconds_sum', { journey_name: 'story', kind: 'Journey' })).toBe(
      17,
    )
  })
})

test('on a clock that is turned by hand, a deadline is noticed at its own instant, and waiting callers are answered', async () => {
  await server.close()
  server = await TestServer.open({ manual: true })
  await deploy(server, { start: 'nap', states: { nap: timer('PT5S', 'approve'), approve: wait(), done: succeed } })
  const paused = begin(server)
  await idle()
  await server.post('/ojs/v1/admin/clock', { advance_ms: 6_000 })
  const { body } = await paused
  expect(body).toMatchObject({ currentState: 'approve', remainingMs: 24_000 })
  await server.post('/ojs/v1/admin/clock', { advance_ms: 60_000 })
  const outcome = (await server.get(`${runUrl(String(body['journeyId']))}/result`)).body
  expect(outcome).toMatchObject({ terminationKind: 'Timeout', endedAt: at(30_000) })
})
