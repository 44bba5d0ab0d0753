/** Options and exit codes of the operating commands, one by one: each test fails if the option has no effect. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openServer } from 'curfew'
import { curfew, reach, type Said } from './command-stage.ts'
import { TestServer } from './harness.ts'

let server: TestServer
let stage: { streams: number }
let folder: string
beforeEach(async () => {
  server = await TestServer.open()
  stage = reach(server)
  folder = mkdtempSync(join(tmpdir(), 'curfew-options-'))
})
afterEach(async () => {
  vi.unstubAllGlobals()
  await server.close()
  rmSync(folder, { recursive: true })
})

const lines = (text: string): string[] => text.trimEnd().split('\n')
const jsonOf = async (line: string | readonly string[], said?: Said): Promise<unknown> =>
  JSON.parse((await curfew(line, said)).out)
const opened = (): Promise<void> =>
  vi.waitFor(() => {
    expect(stage.streams).toBe(1)
  })

/** Answers to one path come from here, the others from the server. */
function answer(path: string, status: number, body: unknown): void {
  const others = fetch as (address: string, init: object) => Promise<Response>
  vi.stubGlobal('fetch', (address: string, init: object) =>
    new URL(address).pathname === path
      ? Promise.resolve(new Response(JSON.stringify(body), { status }))
      : others(address, init),
  )
}

describe('jobs enqueue', () => {
  test('sends every option it was given', async () => {
    const id = '019b0000-0000-7000-8000-000000000001'
    const options = `--id ${id} --tag a --tag b --max-attempts 7 --priority -5 --at 2026-01-02T00:00:00Z`
    expect((await curfew(`jobs enqueue mail.send ${options}`)).out).toBe(`${id}\n`)
    expect(await server.job(id)).toMatchObject({
      tags: ['a', 'b'],
      max_attempts: 7,
      priority: -5,
      scheduled_at: expect.stringMatching(/^2026-01-02T/),
    })
  })

  test('reads its arguments from a file, and takes one value as a list of one', async () => {
    const file = join(folder, 'args.json')
    writeFileSync(file, '{"to": "ada"}')
    const { out } = await curfew(['jobs', 'enqueue', 'mail.send', '--args', `@${file}`])
    expect((await server.job(out.trim())).args).toEqual([{ to: 'ada' }])
    await expect(curfew(['jobs', 'enqueue', 'a', '--args', '{'])).rejects.toThrow('--args is not valid JSON')
  })

  test('--wait waits for the end and exits as the job ended', async () => {
    const waiting = curfew('jobs enqueue mail.send --wait')
    await opened()
    const { body } = await server.fetch()
    await server.ack(body.job.id)
    await server.advance(1)
    const { code, out } = await waiting
    expect(code).toBe(0)
    expect(out).toMatch(/^state +completed$/m)
  })

  test('plan passes on warnings', async () => {
    expect((await curfew('jobs plan a --timeout 60s --total-timeout 60s')).out).toMatch(/^warning: /m)
  })
})

describe('jobs watch', () => {
  test('exits with 5 when its own time is up, with 3 for a cancelled job, with 130 for Ctrl-C', async () => {
    const id = await server.enqueue()
    expect((await curfew(`jobs watch ${id} --timeout 5ms`)).code).toBe(5)
    const interrupt = new AbortController()
    stage.streams = 0
    const watching = curfew(`jobs watch ${id}`, { signal: interrupt.signal })
    await opened()
    interrupt.abort()
    expect((await watching).code).toBe(130)
    await curfew(`jobs cancel ${id} --yes`)
    expect((await curfew(`jobs watch ${id}`)).code).toBe(3)
  })

  test('--json prints the job alone', async () => {
    const done = await server.start()
    await server.ack(done.id)
    expect(await jsonOf(`jobs watch ${done.id} --json`)).toMatchObject({ id: done.id, state: 'completed' })
  })
})

describe('jobs show, set and list', () => {
  test('show names every limit that was set, and who set it', async () => {
    const id = await server.enqueue({
      timeout: 5,
      grace_period: 1,
      total_timeout: 60,
      enqueue_ttl: 30,
      heartbeat_timeout: 10,
      visibility_timeout: 20,
    })
    const { out } = await curfew(`jobs show ${id}`)
    for (const limit of [
      'timeout +5 s',
      'grace +1 s',
      'total +60 s',
      'ttl +30 s',
      'heartbeat +10 s',
      'visibility +20 s',
    ])
      expect(out).toMatch(new RegExp(`^${limit} \\(set at enqueue\\)$`, 'm'))
  })

  test('set moves a job to another time', async () => {
    const id = await server.enqueue({ scheduled_at: '2026-01-02T00:00:00Z' })
    await curfew(`jobs set ${id} --at 2026-01-03T00:00:00Z`)
    expect((await server.job(id)).scheduled_at).toMatch(/^2026-01-03T/)
  })

  test('an error that no limit caused is shown without a limit, and cannot speak to the terminal', async () => {
    const { id } = await server.start({ retry: { max_attempts: 1 } })
    await server.nack(id, { message: 'no', type: 'Broken\u001b[2J' })
    const { out } = await curfew('jobs list', { width: 200 })
    expect(out).toMatch(/discarded +Broken·\[2J +\S/)
    expect(out).not.toMatch(/ 0 ms/)
    expect(out).not.toContain('\u001b')
  })

  test.each([
    ['queue:mail', { queue: 'mail' }],
    ['tag:urgent', { tags: ['urgent'] }],
    ['type:mail.send', { type: 'mail.send' }],
    ['priority:7', { priority: 7 }],
    ['state:scheduled', { scheduled_at: '2026-01-02T00:00:00Z' }],
  ])('list %s leaves the others out', async (filter, job) => {
    await server.enqueue({ type: 'other', queue: 'other' })
    const id = await server.enqueue(job)
    expect((await curfew(`jobs list ${filter} -o ids`)).out).toBe(`${id}\n`)
  })

  test('list since: counts back on the clock of the server', async () => {
    await server.enqueue()
    await server.advance(3_600_000)
    const id = await server.enqueue()
    expect((await curfew('jobs list since:-30m -o ids')).out).toBe(`${id}\n`)
    expect(lines((await curfew('jobs list since:-2h -o ids')).out)).toHaveLength(2)
    expect(lines((await curfew('jobs list since:2026-01-01T12:30:00Z -o ids')).out)).toHaveLength(1)
  })

  test('-o json is --json, and says what was looked at', async () => {
    await server.enqueue()
    expect(await jsonOf('jobs list -o json')).toEqual(await jsonOf('jobs list --json'))
  })

  test('lines are cut in a terminal, and whole in a pipe', async () => {
    await server.enqueue({ type: 'a.very.long.type.of.a.job.that.does.not.fit' })
    const [cut, whole] = [await curfew('jobs list'), await curfew('jobs list', { isTerminal: false })]
    expect(lines(cut.out)[1]).toMatch(/^.{79}…$/)
    expect(lines(whole.out)[1]).toMatch(/does\.not\.fit +available/)
  })
})

test('ids behind the first column are shortened before a line is cut, and never in a pipe', async () => {
  const worker = '01a1f063-b3fa-7e48-ba77-a20aaf96abf7'
  await server.register(worker)
  const job = await server.start({}, { worker_id: worker })
  const [narrow, wide, piped] = [
    await curfew('jobs list', { width: 110 }),
    await curfew('jobs list', { width: 200 }),
    await curfew('jobs list', { width: 110, isTerminal: false }),
  ]
  expect(lines(narrow.out)[1]).toMatch(new RegExp(`^${job.id} .* 01a1…abf7$`))
  for (const { out } of [wide, piped]) expect(lines(out)[1]).toMatch(new RegExp(`${worker}$`))
})

describe('actions on many jobs', () => {
  test('exit with 0 if some were done, and name those that were not', async () => {
    const [id, over] = [await server.enqueue(), (await server.start({ queue: 'other' })).id]
    await server.ack(over)
    const { code, out } = await curfew(`jobs cancel ${id} ${over} --yes`)
    expect([code, lines(out)[0]]).toEqual([0, 'cancelled 1 job, skipped 1'])
    expect(lines(out)[1]).toMatch(new RegExp(`^ {2}${over}: \\S`))
    expect(await jsonOf(`jobs cancel ${over} --yes --json`)).toMatchObject({ total_matched: 1 })
  })

  test('take several filters together', async () => {
    await server.enqueue({ queue: 'mail', type: 'a' })
    const id = await server.enqueue({ queue: 'mail', type: 'b' })
    await curfew('jobs cancel --filter queue:mail --filter type:b --yes')
    expect((await curfew('jobs list state:cancelled -o ids')).out).toBe(`${id}\n`)
  })

  test('a dry run does nothing, also with --yes, and has JSON', async () => {
    const id = await server.enqueue()
    await curfew('jobs cancel --all --dry-run --yes')
    expect((await server.job(id)).state).toBe('available')
    expect(await jsonOf('jobs cancel --all --dry-run --json')).toMatchObject({ matched: 1, would_act_on: 1 })
    expect((await server.job(id)).state).toBe('available')
  })

  test.each(['jobs cancel x --all', 'jobs retry x --filter queue:a', 'dead delete --all --filter queue:a'])(
    '%s is refused: one way to choose jobs at a time',
    async (line) => {
      await expect(curfew([...line.split(' '), '--yes'])).rejects.toThrow('Name ids, or --filter, or --all')
    },
  )

  test('dead list takes filters', async () => {
    for (const type of ['a', 'b']) {
      const job = await server.start({ type, retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
      await server.nack(job.id)
    }
    expect(lines((await curfew('dead list type:b')).out)).toHaveLength(2)
    expect((await curfew('dead list type:c')).out).toMatch(
      /^There are no dead letters\. .*\n {2}curfew jobs list state:discarded\n$/,
    )
  })
})

describe('queues, types, workers', () => {
  test('several are named at once', async () => {
    for (const queue of ['a', 'b', 'c']) await server.enqueue({ queue })
    expect((await curfew('queues pause a b')).out).toBe('a is paused\nb is paused\n')
    expect((await curfew('queues list')).out).toMatch(/^a +paused .*\nb +paused .*\nc +active/m)
    for (const worker of ['w1', 'w2']) await server.register(worker)
    await curfew('workers quiet w1 w2')
    expect(await jsonOf('workers resume w1 --json')).toHaveLength(1)
    expect((await curfew('workers list', { width: 200 })).out).toMatch(/^w1 +\S+ +(?!quiet)\S+.*\nw2 +\S+ +quiet/m)
  })

  test('the depth of a queue is bounded and the bound removed', async () => {
    await server.enqueue({ queue: 'mail' })
    await curfew('queues set mail --max-depth 5')
    expect(await jsonOf('queues show mail --json')).toMatchObject({ config: { backpressure: { max_depth: 5 } } })
    await curfew('queues set mail --max-depth none')
    expect(await jsonOf('queues show mail --json')).toMatchObject({ config: {}, stats: { max_depth: null } })
  })

  test('a limit of a type in seconds gives way to one in milliseconds', async () => {
    await server.call('PUT', '/api/v1/job-types/mail.send', { timeout: 60 })
    await curfew('types set mail.send --timeout 1500ms')
    const { out } = await curfew('types list', { width: 200 })
    expect(out).toContain('timeout_ms=1500')
    expect(out).not.toMatch(/timeout=60/)
  })
})

describe('cron, workflows, webhooks', () => {
  test('a trigger that the overlap policy refuses is refused in the words of the server', async () => {
    const entry = { name: 'daily', expression: '0 3 * * *', overlap_policy: 'skip' }
    await server.post('/ojs/v1/cron', { ...entry, job_template: { type: 'report.make', args: [] } })
    await curfew('cron trigger daily')
    await expect(curfew('cron trigger daily')).rejects.toThrow('its overlap_policy allows no other. (conflict)')
  })

  test('workflows are listed by their state', async () => {
    const step = { type: 'a', args: [] }
    await server.post('/ojs/v1/workflows', { type: 'chain', name: 'etl', steps: [step] })
    expect((await curfew('workflows list --state completed')).out).toBe('There are no workflows.\n')
    expect(lines((await curfew('workflows list --state running -o ids')).out)).toHaveLength(1)
  })

  test('a webhook that does not answer makes its test exit with 3', async () => {
    const path = '/ojs/v1/webhooks/subscriptions/h/test'
    answer(path, 200, { success: false, response_time_ms: 12, error: 'connection refused' })
    expect(await curfew('webhooks test h')).toMatchObject({
      code: 3,
      out: 'not delivered in 12 ms connection refused\n',
    })
    answer(path, 200, { success: true, response_time_ms: 12, status_code: 204 })
    expect(await curfew('webhooks test h')).toMatchObject({ code: 0, out: 'delivered in 12 ms HTTP 204\n' })
  })
})

describe('what happens', () => {
  test('status of a degraded server exits with 6 and says why; --json has all it was made of', async () => {
    await server.enqueue({ enqueue_ttl: 60 })
    expect(await jsonOf('status --json')).toMatchObject({
      health: { status: 'ok' },
      stats: { jobs: { available: 1 } },
      at_risk: 1,
    })
    const backend = { type: 'sqlite', status: 'error', reason: 'disk full' }
    answer('/ojs/v1/health', 503, { status: 'degraded', server_version: '1', backend })
    const { code, out } = await curfew('status')
    expect(code).toBe(6)
    expect(out).toMatch(/^store +sqlite, error, disk full$/m)
  })

  test('at-risk and timeouts look at one queue where one is named', async () => {
    await server.enqueue({ queue: 'mail', enqueue_ttl: 60 })
    expect((await curfew('at-risk --queue other --fail')).code).toBe(0)
    expect((await curfew('at-risk --queue mail --fail')).code).toBe(6)
    await server.advance(61_000)
    expect((await curfew('timeouts --queue mail --by kind')).out).toMatch(/^enqueue_ttl +1/m)
    expect((await curfew('timeouts --queue other')).out).toBe('No limit ran out.\n')
  })

  test('timeouts looks at the window that is named', async () => {
    await server.enqueue({ enqueue_ttl: 60 })
    await server.advance(7_200_000)
    expect((await curfew('timeouts')).out).toBe('No limit ran out.\n')
    expect(lines((await curfew('timeouts --from -150m')).out)).toHaveLength(2)
    expect((await curfew('timeouts --from -150m --to -140m')).out).toBe('No limit ran out.\n')
  })

  test('events tail keeps to its types and queues, and prints a line of JSON each', async () => {
    const tailing = curfew('events tail --types job.enqueued --queues mail --count 1 --json')
    await opened()
    await server.enqueue({ queue: 'other' })
    const id = await server.enqueue({ queue: 'mail' })
    await server.advance(1_000)
    expect(JSON.parse((await tailing).out)).toMatchObject({ type: 'job.enqueued', subject: id })
  })

  test('open prints the address of a job, on the server of the environment', async () => {
    const env = { CURFEW_URL: 'http://127.0.0.1:21100/' }
    expect((await curfew('open 01a1', { env })).out).toBe('http://127.0.0.1:21100/jobs/01a1\n')
  })
})

describe('a command on files', () => {
  test('check exits with 1 for damage, and says what to do', async () => {
    const file = join(folder, 'data', 'curfew.db')
    await (await openServer({ data: join(folder, 'data') })).close()
    expect((await curfew(['check', file])).code).toBe(0)
    // A page in the middle is overwritten.
    const bytes = readFileSync(file)
    bytes.fill('x', 3 * 4_096, 4 * 4_096)
    writeFileSync(file, bytes)
    const { code, out } = await curfew(['check', file])
    expect(code).toBe(1)
    expect(out).toMatch(/is damaged\.\n[^]*What to do:/)
  })

  test('doctor has its findings as JSON too', async () => {
    const found = (await jsonOf(['doctor', '--data', join(folder, 'none'), '--json'])) as { findings: unknown[] }
    expect(found.findings).toEqual(expect.any(Array))
  })
})

test('an argument too many is refused, and named', async () => {
  await expect(curfew('jobs show a b')).rejects.toThrow('Unexpected argument "b"')
  await expect(curfew('backup a b')).rejects.toThrow('Unexpected argument "b"')
})

test('a demo that is interrupted exits with 130', async () => {
  expect((await curfew('demo --fast', { signal: AbortSignal.abort() })).code).toBe(130)
})
