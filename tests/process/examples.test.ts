/** Every example does what it says, as a newcomer would run it. */
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { runNode, ServerProcess, within } from './server-process.ts'

async function run(path: string, url = ''): Promise<string> {
  const script = fileURLToPath(new URL(`../../examples/${path}`, import.meta.url))
  const child = runNode(script, url === '' ? {} : { CURFEW_URL: url })
  const exit = await within(`${path} ends`, child.exited, 60_000)
  expect(exit, child.output.stderr).toEqual({ code: 0, signal: null })
  return child.output.stdout
}

test('hello', async () => {
  const { url } = await ServerProcess.start()
  expect(await run('hello/hello.mjs', url)).toMatch(/^attempt 1, \d{4} ms left\nHello, Ada!\n$/)
})

test('busy-loop', async () => {
  const { url } = await ServerProcess.start()
  const said = await run('busy-loop/main.mjs', url)
  expect(said).toMatch(/^thread: timeout after \d+ ms, stuck at spinForever .*spin\.ts:\d+/m)
  expect(said).toMatch(/^process: timeout after \d+ ms, stuck at spinForever .*spin\.ts:\d+/m)
})

test('checkpoint', async () => {
  const { url } = await ServerProcess.start()
  const said = await run('checkpoint/main.mjs', url)
  expect(said).toContain('attempt 1 begins with row 0\n')
  expect(said).toMatch(/attempt 2 begins with row [1-9]/)
  expect(said).toContain('100 rows imported, 0 of them twice\n')
})

test('rolling-deploy', async () => {
  const { url } = await ServerProcess.start()
  const said = await run('rolling-deploy/deploy.mjs', url)
  expect(said).toContain('the old workers left with 0 and 0\n')
  expect(said).toContain('0 lost, 0 doubled; run by v1 and v2\n')
})

test('workflow', async () => {
  const { url } = await ServerProcess.start()
  const said = await run('workflow/main.mjs', url)
  expect(said).toContain('north 3, south 5, west 4: 12 in all\n')
  expect(said).toMatch(/^failed: workflow_timeout after 0\.\d+ s; the slow step was stopped: deadline$/m)
})

describe('journeys', () => {
  const said: readonly [string, readonly (string | RegExp)[]][] = [
    [
      'sync-api-with-fallback',
      [
        'the usual one answers: 12 from pricing',
        /^it is too slow: 13 from backup, after 1\.[5-9] s$/,
        /^so is the backup: 503 QUOTE_TIMEOUT, after 2\.\d s$/,
      ],
    ],
    [
      'kyc-with-callback-and-sla',
      [
        'Ada: open at verdict, 24 h left',
        'Ada: CLEARED by check-1',
        'Mallory: open at verdict, 24 h left',
        'Mallory: KYC_REFUSED, Mallory did not pass',
      ],
    ],
    [
      'parallel-race-with-timer',
      [
        /^quick: A Room of One’s Own \(personal\) after [01]\.\d s$/,
        /^slow: The bestseller \(not personal\) after [2-3]\.\d s$/,
        /^broken: The bestseller \(not personal\) after [2-3]\.\d s$/,
      ],
    ],
    [
      'approval-with-escalation',
      [
        'R-1: approved true, no decision needed',
        'R-2: open at approve, 60 h left in all',
        'R-2: not accepted, 400; still open',
        'R-2: SUCCEEDED',
        'R-3: JOURNEY_CANCELLED (Cancel)',
      ],
    ],
    [
      'report-by-job-with-budget-hand-over',
      [
        'the job begins with 4 s left of 5',
        'Sales in may: 1200',
        'the job begins with 4 s left of 5',
        /^REPORT_TIMEOUT at render after 5\.\d s$/,
        'the handler was stopped: deadline',
      ],
    ],
    [
      'compensation-after-timeout',
      [
        'SUCCEEDED: seat-1',
        /^FAILED: PAYMENT_TIMEOUT at charge after 2\.\d s$/,
        'seat-2 is given back because of Timeout',
        'Compensation: SUCCEEDED',
      ],
    ],
    [
      'loop-with-bounded-retries',
      [/^https:\/\/files\.example\/7\.csv after 3 tries and [2-4]\.\d s$/, 'EXPORT_NOT_READY: not ready after 5 tries'],
    ],
    ['api-multiplexing', ['Ada, 2 orders, 1 offers', 'Ada, 2 orders, 0 offers', /^504 PAGE_TIMEOUT after 1\.\d s$/]],
  ]

  test.each(said)('%s', async (name, expected) => {
    const { url } = await ServerProcess.start({ flags: ['--allow-private-network'] })
    const lines = (await run(`journeys/${name}/main.mjs`, url)).trimEnd().split('\n')
    expect(lines).toHaveLength(expected.length)
    for (const [index, line] of expected.entries()) {
      if (typeof line === 'string') expect(lines[index]).toBe(line)
      else expect(lines[index]).toMatch(line)
    }
  })
})

test('embedded', async () => {
  expect(await run('embedded/main.mjs')).toBe('1 4 9 16\n')
})
