/** The runner, against a server made up for the purpose: what it sends, what it waits for, and how it judges. */
import { createServer, type IncomingMessage } from 'node:http'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { main } from '../run.mjs'

interface Asked {
  method: string
  path: string
  headers: IncomingMessage['headers']
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  body: any
}
type Answer = { status?: number; body?: unknown; text?: string; headers?: Record<string, string> }

const after: (() => void)[] = []
afterEach(() => {
  for (const undo of after.splice(0)) undo()
})

/** Runs these cases against a server that answers so. */
async function run(cases: object[], answer: (asked: Asked) => Answer, ...options: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
  after.push(() => rmSync(folder, { recursive: true, force: true }))
  cases.forEach((one, i) => writeFileSync(join(folder, `case-${i}.json`), JSON.stringify(one)))
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      let body: unknown
      try {
        body = JSON.parse(text)
      } catch {
        body = text
      }
      const one = { method, path: url, headers, body }
      if (url !== '/ojs/v1/health') asked.push(one)
      const { status = 200, body: answered = {}, text: raw, headers: more = {} } = answer(one)
      response.writeHead(status, more).end(raw ?? JSON.stringify(answered))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  after.push(() => server.close())
  const { port } = server.address() as AddressInfo
  const report = join(folder, 'report.out')
  let said = ''
  const out = { log: (line: string) => (said += `${line}\n`) }
  const args = ['--url', `http://127.0.0.1:${port}`, '--suites', folder, '--json', report, ...options]
  const code: number = await main(args, out)
  const written = JSON.parse(readFileSync(report, 'utf8')) as { cases: { test_id: string; status: string }[] }
  return { code, said, asked, results: written.cases }
}

function busy(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

const oneStep = (step: object) => [{ test_id: 'T-1', name: 'a case', steps: [step] }]
const look = (assertions: object, more: object = {}) =>
  oneStep({ id: 'look', action: 'GET', path: '/thing', assertions, ...more })

test('a case that is right passes, and the exit code says so', async () => {
  const { code, said } = await run(look({ status: 200, body: { '$.a': 1 } }), () => ({ body: { a: 1 } }))
  expect(code).toBe(0)
  expect(said.trimEnd().split('\n').at(-1)).toBe('1 passed, 0 failed, 0 skipped')
})

test('a failure names the step, the request, the place, what was wanted and what came', async () => {
  const { code, said } = await run(look({ status: 200, body: { '$.a.b': 'string:nonempty' } }), () => ({
    status: 404,
    body: { error: { message: 'no such thing' } },
  }))
  expect(code).toBe(1)
  expect(said).toContain('FAIL case-0.json [T-1] a case')
  expect(said).toContain('look: GET /thing → 404 (no such thing)')
  expect(said).toMatch(/status\n +wanted 200\n +got {4}404/)
  expect(said).toMatch(/\$\.a\.b\n +wanted a string that is not empty\n +got {4}nothing/)
})

test('a later step has the values of an earlier answer, with their types', async () => {
  const steps = [
    { id: 'one', action: 'POST', path: '/one', body: {}, capture: { name: '$.job.name' } },
    {
      id: 'two',
      action: 'PUT',
      path: '/two/{{steps.one.response.body.job.id}}',
      body: { n: '{{steps.one.response.body.job.n}}', text: 'n={{steps.one.response.body.job.n}}', name: '${name}' },
    },
  ]
  const { asked } = await run([{ steps }], () => ({ body: { job: { id: 'x', n: 7, name: 'ada' } } }))
  expect(asked[1]).toMatchObject({ path: '/two/x', body: { n: 7, text: 'n=7', name: 'ada' } })
})

test('a value that never came fails the step that needs it', async () => {
  const { said } = await run(look({}, { path: '/{{steps.none.response.body.id}}' }), () => ({}))
  expect(said).toMatch(/\{\{steps\.none\.response\.body\.id\}\}\n +wanted a value of an earlier step/)
})

test('queues, workers and job ids are its own in every run; default keeps its name', async () => {
  const id = '01a1e319-9275-7afe-a29f-cbe67abc3521'
  const body = { queue: 'mail', id, worker_id: 'w.1', queues: ['mail', 'default'], type: 'mail.send', args: ['mail'] }
  const cases = oneStep({ id: 's', action: 'POST', path: '/ojs/v1/queues/mail/pause?queues=mail,default', body })
  const { asked } = await run(cases, () => ({}))
  const sent = asked.find(({ path }) => path.includes('pause'))
  const queue: string = sent?.body.queue
  expect(queue).toMatch(/^mail-\w+$/)
  expect(sent?.path).toBe(`/ojs/v1/queues/${queue}/pause?queues=${queue},default`)
  expect(sent?.body).toMatchObject({ queues: [queue, 'default'], type: 'mail.send', args: [queue] })
  expect(sent?.body.worker_id).toMatch(/^w\.1-\w+$/)
  expect(sent?.body.id).not.toBe(id)
})

test('until_ms asks again until it is so', async () => {
  let n = 0
  const { code } = await run(look({ body: { '$.n': { $gte: 3 } } }, { until_ms: 5_000 }), () => ({ body: { n: n++ } }))
  expect([code, n]).toEqual([0, 4]) // 0 was the greeting
})

test('throughout fails at once when it is otherwise too early, and ignores later states', async () => {
  const steps = [
    { id: 'begin', action: 'GET', path: '/begin' },
    { id: 'still', action: 'GET', path: '/state', throughout: { since: 'begin', ms: 400 } },
  ].map((step) => ({ ...step, assertions: step.id === 'still' ? { body: { '$.state': 'active' } } : {} }))
  const endsAfter = (ms: number) => {
    let began = Infinity
    return ({ path }: Asked) => {
      if (path === '/begin') began = performance.now()
      return { body: { state: performance.now() - began < ms ? 'active' : 'over' } }
    }
  }
  const early = await run([{ steps }], endsAfter(150))
  expect(early.code).toBe(1)
  expect(early.said).toMatch(/still: GET \/state → 200, .* ms too early/)
  expect((await run([{ steps }], endsAfter(400))).code).toBe(0)
})

test('throughout is refused where asking changes something', async () => {
  const steps = [
    { id: 'a', action: 'GET', path: '/a' },
    { id: 'b', action: 'POST', path: '/b', throughout: { since: 'a', ms: 1 } },
  ]
  expect((await run([{ steps }], () => ({}))).said).toContain('throughout is for looking on')
})

test('elapsed holds two timestamps apart: exact downward', async () => {
  const span = (least: number, most: number) => ({
    elapsed: [{ from: '$.from', to: '$.to', at_least_ms: least, at_most_ms: most }],
  })
  const body = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T00:00:01.000Z' }
  expect((await run(look(span(1_000, 1_000)), () => ({ body }))).code).toBe(0)
  expect((await run(look(span(1_001, 2_000)), () => ({ body }))).code).toBe(1)
  expect((await run(look(span(0, 999)), () => ({ body }))).code).toBe(1)
  expect((await run(look(span(0, 999)), () => ({ body }), '--slack', '1')).code).toBe(0)
  expect((await run(look(span(0, 999)), () => ({ body: {} }))).code).toBe(1)
})

test('steps that name each other go together; the others in turn', async () => {
  const fetches = ['a', 'b', 'c'].map((id) => ({
    id,
    action: 'POST',
    path: `/${id}`,
    ...(id === 'a' ? {} : { parallel_with: 'a' }),
  }))
  const claim = {
    job_id: 'x',
    fetches: fetches.map(({ id }) => `{{steps.${id}.response.body.jobs}}`),
    exactly_one_has_job: true,
  }
  const steps = [...fetches, { id: 'one', action: 'ASSERT', assertions: { exclusive_claim: claim } }]
  const given = (...lucky: string[]) => {
    return ({ path }: Asked) => ({ body: { jobs: lucky.includes(path) ? [{ id: 'x' }] : [] } })
  }
  expect((await run([{ steps }], given('/b'))).code).toBe(0)
  expect((await run([{ steps }], given('/b', '/c'))).code).toBe(1)
  expect((await run([{ steps }], given())).code).toBe(1)
})

test('an equality compares whole answers', async () => {
  const equality = { '$.steps.a.response.body': '{{steps.b.response.body}}' }
  const steps = [
    { id: 'a', action: 'GET', path: '/a' },
    { id: 'b', action: 'GET', path: '/b' },
    { id: 'same', action: 'ASSERT', assertions: { equality } },
  ]
  expect((await run([{ steps }], () => ({ body: { n: 1 } }))).code).toBe(0)
  expect((await run([{ steps }], ({ path }) => ({ body: { path } }))).code).toBe(1)
})

test('what the official runner leaves out is looked at: raw_body, repeat, status_one_of, headers, expect, text', async () => {
  const steps = [
    { id: 'raw', action: 'POST', path: '/raw', raw_body: '{"broken', assertions: { status_one_of: [400, 422] } },
    { id: 'often', action: 'GET', path: '/often', repeat: 3, assertions: { headers: { 'X-A': { $exists: true } } } },
    { id: 'flat', action: 'GET', path: '/flat', expect: { status: 200, 'body.a.b': 1, body: { c: 2 } } },
    {
      id: 'text',
      action: 'GET',
      path: '/text',
      assertions: { body_contains: ['a{b'], body_matches: ['^a\\{b="x"\\} 1$'] },
    },
    {
      id: 'gone',
      action: 'GET',
      path: '/flat',
      assertions: { body_absent: ['$.d'], body: { '$.a': { $type: 'object' } } },
    },
  ]
  const answers: Record<string, Answer> = {
    '/raw': { status: 422 },
    '/often': { headers: { 'x-a': '1' } },
    '/flat': { body: { a: { b: 1 }, c: 2, d: null } },
    '/text': { text: 'more\na{b="x"} 1\nmore' },
  }
  const { code, asked } = await run([{ steps }], ({ path }) => answers[path] ?? {})
  expect(code).toBe(0)
  expect(asked.map(({ path }) => path)).toEqual(['/raw', '/often', '/often', '/often', '/flat', '/text', '/flat'])
  expect(asked[0]?.body).toBe('{"broken')
})

test('a file that is not a case, and an unknown assertion, fail instead of being skipped', async () => {
  const { code, results } = await run([{ steps: [] }, ...look({ staus: 200 })], () => ({}))
  expect(code).toBe(1)
  expect(results.map(({ status }) => status)).toEqual(['failed', 'failed'])
})

test('a case about one server alone is left out unless it is asked for', async () => {
  const cases = [...look({}), { ...look({})[0], test_id: 'T-2', tags: ['x_one'] }]
  expect((await run(cases, () => ({}))).said).toContain('1 passed, 0 failed, 1 skipped')
  expect((await run(cases, () => ({}), '--with', 'x_one')).said).toContain('2 passed, 0 failed, 0 skipped')
})

test('a case that requires an extension is left out where the manifest does not name it', async () => {
  const cases = [...look({}), { ...look({ status: 201 })[0], test_id: 'T-2', requires: ['urn:one:ext:own'] }]
  const without = await run(cases, () => ({ body: { extensions: ['urn:ojs:ext:events'] } }), '--verbose')
  expect(without.code).toBe(0)
  expect(without.said).toContain('1 passed, 0 failed, 1 skipped')
  expect(without.said).toContain('the manifest of the server does not name urn:one:ext:own')
  const having = await run(cases, () => ({ body: { extensions: ['urn:one:ext:own'] } }))
  expect(having.said).toContain('1 passed, 1 failed, 0 skipped')
})

test('a moment from now is written as an instant', async () => {
  const steps = [{ action: 'POST', path: '/a', body: { at: '{{in:60000}}' } }]
  const before = Date.now()
  const { asked } = await run([{ steps }], () => ({}))
  const sent = Date.parse((asked[0]?.body as { at: string }).at)
  expect(sent).toBeGreaterThanOrEqual(before + 60_000)
  expect(sent).toBeLessThanOrEqual(Date.now() + 60_000)
})

test('with --offered, what the manifest says is not there is left out', async () => {
  const cases = [...look({}), { ...look({ status: 201 })[0], test_id: 'T-2', tags: ['unique'] }]
  const answer = () => ({ body: { capabilities: { unique_jobs: false } } })
  expect((await run(cases, answer)).code).toBe(1)
  expect((await run(cases, answer, '--offered')).said).toContain('1 passed, 0 failed, 1 skipped')
})

test('a case that is known to fail may, and is not counted as a failure', async () => {
  const cases = [...look({}), { ...look({ status: 500 })[0], test_id: 'L1-RTR-014' }]
  const { code, said } = await run(cases, () => ({}))
  expect(code).toBe(0)
  expect(said).toContain('1 passed, 0 failed (and 1 as expected), 0 skipped')
})

test('--only, --skip and --level choose by path, id and tag', async () => {
  const cases = [
    { ...look({})[0], test_id: 'A-1', tags: ['must'] },
    { ...look({})[0], test_id: 'B-1', tags: ['should'] },
  ]
  const ids = async (...options: string[]) => {
    const { results } = await run(cases, () => ({}), ...options)
    return results.filter(({ status }) => status === 'passed').map(({ test_id: id }) => id)
  }
  expect(await ids('--only', '^must$')).toEqual(['A-1'])
  expect(await ids('--only', 'case-1')).toEqual(['B-1'])
  expect(await ids('--skip', '^A-')).toEqual(['B-1'])
  expect(await ids('--level', 'ext')).toEqual(['A-1', 'B-1'])
  await expect(ids('--level', '0-4')).rejects.toThrow('no case fits')
})

test('a token and headers go with every request', async () => {
  const { asked } = await run(look({}), () => ({}), '--token', 'secret', '--header', 'X-OJS-Tenant: acme')
  expect(asked[0]?.headers).toMatchObject({ authorization: 'Bearer secret', 'x-ojs-tenant': 'acme' })
})

test('what a case has left is cancelled after it', async () => {
  const steps = [{ id: 's', action: 'POST', path: '/ojs/v1/jobs', body: { type: 'a.b', queue: 'q', args: [] } }]
  const { asked } = await run([{ steps }], ({ method }) =>
    method === 'POST' ? { status: 201, body: { job: { id: 'j-1', state: 'available' } } } : {},
  )
  expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /ojs/v1/jobs', 'DELETE /ojs/v1/jobs/j-1'])
})

test('jobs of others, seen in a list, are left alone', async () => {
  const steps = [{ id: 's', action: 'GET', path: '/ojs/v1/dead-letter' }]
  const { asked } = await run([{ steps }], () => ({ body: { jobs: [{ id: 'j-1', state: 'discarded' }] } }))
  expect(asked).toHaveLength(1)
})

test('with --reset-url the server is emptied before every case, one at a time', async () => {
  const cases = [...look({}), ...look({})]
  let base = ''
  const server = createServer((_, response) => {
    base += 'reset '
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  after.push(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/reset`
  await run(
    cases,
    () => {
      base += 'case '
      return {}
    },
    '--reset-url',
    url,
  )
  expect(base).toBe('case reset case reset case ') // the first is the greeting
})

test('a case that failed while the machine was busy is played again; one that just failed is not', async () => {
  const busyAtFirst = (ms: number) => {
    let n = 0
    return ({ path }: Asked) => {
      n += path === '/thing' ? 1 : 0
      if (n === 1 && path === '/thing') busy(ms)
      return { status: n === 1 ? 500 : 200 }
    }
  }
  const again = await run(look({ status: 200 }), busyAtFirst(300))
  expect([again.code, again.asked.length]).toEqual([0, 2])
  expect(again.said).toContain('1 passed only when they were played again')
  expect((await run(look({ status: 200 }), busyAtFirst(300), '--replays', '0')).code).toBe(1)
  expect((await run(look({ status: 500 }), () => ({}))).asked).toHaveLength(1)
})

test('a server that is not there cannot be judged', async () => {
  await expect(main(['--url', 'http://127.0.0.1:9'], { log: () => {} })).rejects.toThrow('cannot be reached')
})

test.each([
  [[]],
  [['--url', 'ftp://x']],
  [['--url', 'http://x', '--only', '(']],
  [['--url', 'http://x', '--slack', '-1']],
  [['--what']],
])('the options %j are refused', async (options) => {
  await expect(main(options, { log: () => {} })).rejects.toThrow()
})
