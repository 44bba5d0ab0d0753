/** The commands of operators, against a server on a clock turned by hand. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { refusal, Remote } from '../packages/server/src/cli/frame/remote.ts'
import { SettingsError } from 'curfew'
import { curfew, reach } from './command-stage.ts'
import { TestServer } from './harness.ts'

let server: TestServer
let stage: { streams: number }
beforeEach(async () => {
  server = await TestServer.open()
  stage = reach(server)
})
afterEach(async () => {
  vi.unstubAllGlobals()
  await server.close()
})

const lines = (text: string): string[] => text.trimEnd().split('\n')

/** One job that a timeout has ended. */
async function discarded(type = 'report.build'): Promise<string> {
  const { id } = await server.start(
    { type, timeout: 3, grace_period: 1, retry: { max_attempts: 1 } },
    { worker_id: 'w1' },
  )
  await server.advance(5_000)
  return id
}

describe('jobs', () => {
  test('list finds by filter, says why a job ended and whose limit it was, within 80 columns', async () => {
    const id = await discarded()
    await server.enqueue({ type: 'mail.send' })
    const { code, out } = await curfew('jobs list state:discarded error:timeout since:-1h --utc')
    expect(code).toBe(0)
    expect(lines(out)).toHaveLength(2)
    expect(out).toContain(id)
    expect(out).toMatch(/report\.build +discarded +timeout 3 s ●/)
    for (const line of lines(out)) expect(line.length).toBeLessThanOrEqual(80)
    const wide = await curfew('jobs list id:01 --utc', { width: 200 })
    expect(wide.out).toMatch(/2026-01-01 12:00:04 +1\/1 +w1/)
  })

  test('list prints ids alone for other commands, or JSON', async () => {
    const id = await server.enqueue()
    expect((await curfew('jobs list -o ids')).out).toBe(`${id}\n`)
    expect(JSON.parse((await curfew('jobs list --json')).out)).toMatchObject({ items: [{ id }], complete: true })
    expect((await curfew('jobs list type:other -o ids')).out).toBe('')
    expect((await curfew('jobs list type:other')).out).toBe('No job was found.\n')
  })

  test('a list that ended at its limit says how to go on', async () => {
    for (let n = 0; n < 3; n += 1) await server.enqueue()
    const first = await curfew('jobs list --limit 2')
    const cursor = /--cursor (\S+)/.exec(first.out)?.[1] ?? ''
    expect(lines((await curfew(`jobs list --limit 2 -o ids --cursor ${cursor}`)).out)).toHaveLength(1)
  })

  test('enqueue prints the id; show, set and plan speak of limits and who set them', async () => {
    const made = await curfew([
      'jobs',
      'enqueue',
      'mail.send',
      '--args',
      '["ada"]',
      '--timeout',
      '90s',
      '--queue',
      'mail',
    ])
    const id = made.out.trim()
    expect(await server.job(id)).toMatchObject({ args: ['ada'], queue: 'mail', x_limits: { timeout_ms: 90_000 } })
    expect((await curfew(`jobs show ${id}`)).out).toMatch(/^timeout +90 s \(set at enqueue\)$/m)
    await curfew(`jobs set ${id} --total-timeout 1h --priority 5`)
    expect(await server.job(id)).toMatchObject({ priority: 5, x_limits: { total_ms: 3_600_000 } })
    const plan = await curfew('jobs plan mail.send --timeout 40s --total-timeout 60s')
    expect(plan.out).toMatch(/^attempt 2 starts after .*: does not fit$/m)
    await expect(curfew(`jobs set ${id}`)).rejects.toThrow('Name at least one thing to set')
  })

  test('cancel by filter tries without effect first, and acts only when a person or --yes says so', async () => {
    const id = await server.enqueue({ queue: 'mail' })
    await server.enqueue({ queue: 'other' })
    const cancel = ['jobs', 'cancel', '--filter', 'queue:mail']
    await expect(curfew(cancel)).rejects.toThrow('Cancel 1 job? Nothing was done. Repeat the command with --yes.')
    expect((await curfew([...cancel, '--dry-run'])).out).toBe('Would cancel 1 job (available 1; mail 1).\n')
    const no = await curfew(cancel, { answer: '' })
    expect(no).toMatchObject({ code: 1, out: '' })
    expect(no.notes).toContain('Would cancel 1 job (available 1; mail 1).\nCancel 1 job? [y/N] \nNothing was done.')
    expect((await server.job(id)).state).toBe('available')
    expect(await curfew(cancel, { answer: 'y' })).toMatchObject({ code: 0, out: 'cancelled 1 job\n' })
    expect((await server.job(id)).state).toBe('cancelled')
    expect((await curfew('jobs cancel --all --yes')).out).toBe('cancelled 1 job\n')
    expect((await curfew(cancel)).out).toBe('No job to cancel.\n')
  })

  test('a job that is over is not cancelled: exit code 1, and the reason', async () => {
    const id = await discarded()
    const { code, out } = await curfew(`jobs cancel ${id} --yes`)
    expect([code, out.split('\n')[0]]).toEqual([1, 'cancelled 0 jobs, skipped 1'])
    expect((await curfew(`jobs retry ${id}`)).out).toBe('retried 1 job\n')
    expect((await server.job(id)).state).toBe('available')
    await expect(curfew('jobs delete')).rejects.toThrow('Name ids, or --filter, or --all')
  })

  test('watch prints what happens until the end, and exits as the job ended', async () => {
    const { id } = await server.start({ timeout: 3, grace_period: 1, retry: { max_attempts: 1 } }, { worker_id: 'w1' })
    const watching = curfew(`jobs watch ${id} --utc`)
    await vi.waitFor(() => {
      expect(stage.streams).toBe(1)
    })
    await server.advance(5_000)
    const { code, out } = await watching
    expect(code).toBe(4)
    expect(out).toMatch(/^state +discarded$/m)
    const failed = await server.start({ retry: { max_attempts: 1 } })
    await server.nack(failed.id)
    expect((await curfew(`jobs watch ${failed.id}`)).code).toBe(3)
    const done = await server.start()
    await server.ack(done.id)
    expect((await curfew(`jobs watch ${done.id}`)).code).toBe(0)
  })

  test('at-risk --fail exits with 6 where jobs will be late', async () => {
    expect(await curfew('at-risk --fail')).toMatchObject({ code: 0, out: 'No job will be late at the present pace.\n' })
    await server.enqueue({ enqueue_ttl: 60 })
    expect((await curfew('at-risk')).code).toBe(0)
    const { code, out } = await curfew('at-risk --fail --utc')
    expect(code).toBe(6)
    expect(out).toContain('nothing starts')
  })
})

describe('dead letters', () => {
  test('are listed, retried and removed', async () => {
    for (let n = 0; n < 2; n += 1) {
      const job = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
      await server.nack(job.id, { message: 'no', type: 'Broken' })
    }
    const [first = '', second = ''] = lines((await curfew('dead list -o ids')).out)
    expect((await curfew('dead list', { width: 120 })).out).toMatch(/Broken .* 1\/1$/m)
    expect((await curfew(`dead retry ${first}`)).out).toBe('retried 1 job\n')
    await expect(curfew(`dead delete ${second}`)).rejects.toThrow('Delete 1 job?')
    expect((await curfew('dead delete --all --yes')).out).toBe('deleted 1 job\n')
    expect((await curfew('dead list')).out).toMatch(/^There are no dead letters\. /)
  })
})

describe('queues, types, limits', () => {
  test('a queue is paused, resumed, drained, configured and shown', async () => {
    await server.enqueue({ queue: 'mail' })
    expect((await curfew('queues pause mail')).out).toBe('mail is paused\n')
    expect((await curfew('queues list')).out).toMatch(/^mail +paused +1 +0/m)
    await curfew('queues resume mail')
    expect((await curfew('queues show mail')).out).toMatch(/^state +active$/m)
    await curfew('queues drain mail')
    await curfew('queues set mail --timeout 10s --order edf')
    expect((await curfew('queues show mail')).out).toMatch(/^state +draining/m)
    expect(JSON.parse((await curfew('queues show mail --json')).out)).toMatchObject({
      config: { default_timeout_ms: 10_000, order: 'edf' },
    })
    await curfew('queues set mail --timeout none')
    expect((await curfew('queues show mail --json')).out).not.toContain('default_timeout_ms')
  })

  test('a type keeps what is not named', async () => {
    await curfew('types set mail.send --timeout 10s --total-timeout 1h')
    await curfew('types set mail.send --timeout 20s')
    expect((await curfew('types list')).out).toMatch(/timeout_ms=20000/)
    expect((await curfew('types list', { width: 200 })).out).toMatch(/total_timeout_ms=3600000/)
    await curfew('types set mail.send --total-timeout none')
    expect((await curfew('types list', { width: 200 })).out).not.toContain('total')
  })

  test('limiters say who holds them and who waits', async () => {
    const limited = { rate_limit: { key: 'stripe', concurrency: 1 } }
    await server.start(limited)
    await server.enqueue(limited)
    expect((await curfew('limits list')).out).toMatch(/^stripe +1 +– +1 +1/m)
  })
})

describe('workers', () => {
  test('are listed and shown; terminate asks first', async () => {
    await server.register('w1')
    const { id } = await server.start({}, { worker_id: 'w1' })
    await server.beat('w1', [id])
    expect((await curfew('workers list')).out).toMatch(/^w1 +running +\S+ +1 +default/m)
    expect((await curfew('workers show w1')).out).toContain(id)
    expect((await curfew('workers quiet w1')).out).toBe('w1 is asked to be quiet\n')
    await curfew('workers resume w1')
    await expect(curfew('workers terminate w1')).rejects.toThrow('Terminate w1? Nothing was done.')
    expect((await curfew('workers terminate w1 --yes')).code).toBe(0)
    expect((await curfew('workers list')).out).toMatch(/^w1 +\S+ +terminate/m)
  })
})

describe('cron, workflows, webhooks', () => {
  test('a cron entry is listed, foreseen and triggered', async () => {
    const template = { type: 'report.make', args: [] }
    await server.post('/ojs/v1/cron', { name: 'daily', expression: '0 3 * * *', job_template: template })
    expect((await curfew('cron list --utc', { width: 120 })).out).toMatch(
      /^daily +0 3 \* \* \* .*2026-01-02 03:00:00$/m,
    )
    expect(lines((await curfew('cron next daily --count 2 --utc')).out)).toEqual([
      '2026-01-02 03:00:00',
      '2026-01-03 03:00:00',
    ])
    const { out } = await curfew('cron trigger daily')
    expect((await server.job(out.trim())).type).toBe('report.make')
  })

  test('a workflow is listed, shown with its steps, and cancelled when confirmed', async () => {
    const step = { type: 'a', args: [] }
    const { body } = await server.post('/ojs/v1/workflows', { type: 'chain', name: 'etl', steps: [step, step] })
    const { id } = body['workflow'] as { id: string }
    expect((await curfew('workflows list', { width: 120 })).out).toMatch(
      new RegExp(`^${id} +etl +chain +running +0/2`, 'm'),
    )
    expect((await curfew(`workflows show ${id}`)).out).toMatch(/^state +running$/m)
    await expect(curfew(`workflows cancel ${id}`)).rejects.toThrow('Repeat the command with --yes')
    expect((await curfew(`workflows cancel ${id} -y`)).out).toBe(`${id} is cancelled\n`)
    expect((await curfew('workflows list --state cancelled -o ids')).out).toBe(`${id}\n`)
  })

  test('webhooks are listed', async () => {
    await server.post('/ojs/v1/webhooks/subscriptions', { url: 'https://a.example/hook', events: ['job.completed'] })
    expect((await curfew('webhooks list', { width: 120 })).out).toMatch(
      /active +https:\/\/a\.example\/hook +job\.completed/,
    )
  })
})

describe('what happens', () => {
  test('events are printed as they happen', async () => {
    const tailing = curfew('events tail --types job.enqueued --count 2 --utc')
    await vi.waitFor(() => {
      expect(stage.streams).toBe(1)
    })
    const id = await server.enqueue()
    await server.enqueue()
    await server.advance(1_000)
    const { out } = await tailing
    expect(lines(out)).toHaveLength(2)
    expect(out).toContain(id)
  })

  test('events tail ends with 130 when it is interrupted', async () => {
    const interrupt = new AbortController()
    const tailing = curfew('events tail', { signal: interrupt.signal })
    await vi.waitFor(() => {
      expect(stage.streams).toBe(1)
    })
    interrupt.abort()
    expect((await tailing).code).toBe(130)
  })

  test('status says what there is, and timeouts which limits ran out', async () => {
    await discarded()
    const status = await curfew('status')
    expect(status.code).toBe(0)
    expect(status.out).toMatch(/^jobs +discarded 1$/m)
    expect((await curfew('timeouts')).out).toMatch(/^report\.build +1 +/m)
    expect((await curfew('timeouts --by kind')).out).toMatch(/^execution +1 +/m)
    expect((await curfew('timeouts --by source')).out).toMatch(/^● set at enqueue +1 +/m)
  })

  test('open prints the address of the board', async () => {
    expect((await curfew('open --url http://127.0.0.1:21200')).out).toBe('http://127.0.0.1:21200/\n')
  })
})

describe('hindsight', () => {
  /** Attempts that ran 1, 1, 2 and 2.5 seconds and completed, and one that its timeout of 3 seconds has ended. */
  async function ran(): Promise<void> {
    for (const seconds of [1, 1, 2, 2.5]) {
      const { id } = await server.start({ type: 'report.build', timeout: 3, grace_period: 0 }, { worker_id: 'w1' })
      await server.advance(seconds * 1_000)
      await server.ack(id, { worker_id: 'w1' })
    }
    await discarded()
  }

  test('what-if says how many attempts a shorter timeout would have ended, and how many of them completed', async () => {
    await ran()
    const { code, out } = await curfew('what-if report.build --timeout 1500ms')
    expect(code).toBe(0)
    expect(out).toMatch(/^report\.build: 5 attempts ended from /)
    expect(out).toMatch(/^ {2}now +timeout 3 s ● set at enqueue: ended 1, 20 %$/m)
    expect(out).toMatch(/^ {2}what if +timeout 1\.5 s: would end 3, 60 %, of which 2 completed$/m)
    // Two seconds lie within a bucket: one more attempt may have run that long.
    expect((await curfew('what-if report.build --timeout 2s')).out).toMatch(
      /would end 2 to 3, 40 to 60 %, of which 1 to 2 completed$/m,
    )
    expect(JSON.parse((await curfew('what-if report.build --timeout 1500ms --json')).out)).toMatchObject({
      type: 'report.build',
      queue: null,
      attempts: 5,
      timeout_ms: 3_000,
      source: 'publish',
      timed_out: 1,
      tried_ms: 1_500,
      would_end: { least: 3, most: 3, completed: { least: 2, most: 2 } },
    })
  })

  test('what-if does not guess what a longer timeout would have saved', async () => {
    await ran()
    const { out } = await curfew('what-if report.build --timeout 1m')
    expect(out).toMatch(/what if +timeout 60 s: unknown, since attempts were ended before that$/m)
    expect(JSON.parse((await curfew('what-if report.build --timeout 1m --json')).out)).toMatchObject({
      would_end: null,
    })
  })

  test('what-if looks only at the type, the queue and the window that are named', async () => {
    await ran()
    const none = /^No attempt of \S+( in other)? ended from /
    expect((await curfew('what-if mail.send --timeout 1s')).out).toMatch(none)
    expect((await curfew('what-if report.build --queue other --timeout 1s')).out).toMatch(none)
    expect((await curfew('what-if report.build --queue default --timeout 1s')).out).toMatch(/5 attempts/)
    await server.advance(7_200_000)
    expect((await curfew('what-if report.build --timeout 1s --from -1h')).out).toMatch(none)
    expect((await curfew('what-if report.build --timeout 1s')).out).toMatch(/5 attempts/)
  })

  /** A timeout, a pause, and what an operator noted. */
  async function trouble(): Promise<string> {
    const id = await discarded()
    await server.advance(60_000)
    await server.post('/ojs/v1/queues/mail/pause')
    await server.post('/api/v1/annotations', { text: 'deployed media 1.4' })
    return id
  }

  test('incident lists what happened, by kind and in its order, with details', async () => {
    const id = await trouble()
    const { code, out } = await curfew('incident --utc', { width: 200 })
    expect(code).toBe(0)
    expect(out).toMatch(/^2026-01-01 11:01:05 to 2026-01-01 12:01:05: \d+ events$/m)
    expect(out).toMatch(/^job\.timeout +1 +2026-01-01 12:00:04 +2026-01-01 12:00:04 +█$/m)
    const listed = lines(out.split('WHEN ')[1] ?? '').slice(1)
    expect(listed[0]).toMatch(/note +operator +deployed media 1\.4$/)
    expect(listed.findIndex((line) => line.includes('queue.paused'))).toBeLessThan(
      listed.findIndex((line) => line.includes(id)),
    )
    expect(out).toMatch(new RegExp(`job\\.timeout +${id} +job type report\\.build, .*limit 3 s, source publish`))
  })

  test('incident keeps to its window, its number of rows and its form', async () => {
    const id = await trouble()
    const early = await curfew('incident --from 2026-01-01T12:00:00Z --to 2026-01-01T12:00:30Z --utc')
    expect(early.out).toContain('job.timeout')
    expect(early.out).not.toContain('queue.paused')
    const one = (await curfew('incident --limit 1')).out.split('WHEN ')[1] ?? ''
    expect(lines(one)).toHaveLength(3)
    expect(lines(one)[2]).toMatch(/^The newest 1 of \d+\. More: --limit$/)
    expect((await curfew('incident -o markdown')).out).toMatch(/^\| 2026-01-01T12:01:05\.\d+Z \| note \| operator \|/m)
    const told = JSON.parse((await curfew('incident --json')).out) as Record<string, unknown>
    expect(told).toMatchObject({ from: '2026-01-01T11:01:05.000Z', to: '2026-01-01T12:01:05.000Z', complete: true })
    expect(told['kinds']).toContainEqual({
      type: 'job.timeout',
      count: 1,
      first_at: '2026-01-01T12:00:04.000Z',
      last_at: '2026-01-01T12:00:04.000Z',
    })
    expect(told['events']).toContainEqual(expect.objectContaining({ type: 'job.timeout', subject: id }))
    await server.advance(7_200_000)
    expect((await curfew('incident')).out).toMatch(/: no deaths, no pauses, no timeouts, no notes of operators\.$/m)
  })
})

describe('wrong usage', () => {
  test.each([
    ['jbos list', 'Unknown command "jbos". Did you mean curfew jobs?'],
    ['jobs lst', 'Unknown command "jobs lst". Did you mean curfew jobs list?'],
    ['jobs list --limt 3', "Unknown option '--limt'. Did you mean --limit?"],
    ['jobs list --state active', "Unknown option '--state'. Write state:VALUE. Usage: curfew jobs list"],
    ['export --out x', 'Unknown flag --out. See curfew export --help.'],
    ['jobs list state=active', '"state=active" is not a filter'],
    ['jobs list stat:active', 'Unknown filter "stat". Did you mean state?'],
    ['jobs list -o xml', '--output must be one of table, ids, json'],
    ['jobs list --limit 0', '--limit must be a whole number from 1 on'],
    ['jobs show', 'ID is missing. Usage: curfew jobs show ID'],
    ['jobs enqueue a --timeout soon', '--timeout must be a length such as'],
    ['completion tcsh', '"tcsh" is not a known shell'],
    ['what-if report.build', '--timeout is missing'],
    ['what-if report.build --timeout soon', '--timeout must be a length such as'],
    ['events tail --count many', '--count must be a whole number from 1 on'],
    ['incident --limit 0', '--limit must be a whole number from 1 on'],
    ['incident --from yesterday', '--from must be a time or a length before now such as -1h, not yesterday'],
    ['jobs list since:-soon', 'since must be a time or a length before now'],
  ])('%s is refused before anything is sent', async (line, said) => {
    vi.stubGlobal('fetch', () => {
      throw new Error('something was sent')
    })
    const refused = curfew(line)
    await expect(refused).rejects.toThrow(said)
    await expect(refused).rejects.toBeInstanceOf(SettingsError)
  })

  test('a refusal of the server is passed on with its code', async () => {
    await expect(curfew('incident --from 2026-01-01T13:00:00Z --to 2026-01-01T12:00:00Z')).rejects.toThrow(
      '--to must not be before --from',
    )
    await expect(curfew('jobs show 01a1e000-0000-7000-8000-000000000000')).rejects.toThrow('(not_found)')
  })

  test('a missing token is refused with where to give it', () => {
    const answer = { status: 401, body: { error: { code: 'unauthenticated', message: 'A token is needed.' } } }
    expect(refusal(answer).message).toBe('A token is needed. (unauthenticated) Give one with --token or CURFEW_TOKEN.')
  })

  test('a variable that is set to nothing is as good as none, and a wrong one is named', () => {
    const paper = { width: 80, colour: false, write: () => {} }
    const flags = { names: [], text: () => undefined, texts: () => [], has: () => false }
    expect(new Remote(flags, { ...paper, env: { CURFEW_URL: '', CURFEW_TOKEN: '' } }).url).toBe('http://127.0.0.1:8080')
    expect(() => new Remote(flags, { ...paper, env: { CURFEW_URL: 'localhost' } })).toThrow(
      'CURFEW_URL must be an address',
    )
  })
})

test('colour is there where it is wanted, and nowhere else', async () => {
  await server.enqueue()
  expect((await curfew('jobs list', { colour: true })).out).toContain('\u001b[')
  expect((await curfew('jobs list')).out).not.toContain('\u001b[')
})
