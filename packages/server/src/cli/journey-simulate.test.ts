import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { SettingsError } from '../settings.ts'
import { runCurfew } from './run.ts'

const directory = mkdtempSync(join(tmpdir(), 'curfew-simulate-'))
afterAll(() => {
  rmSync(directory, { recursive: true })
})

const FLIGHT = `
apiVersion: v1
kind: Journey
metadata: { name: flight, version: 1.0.0 }
spec:
  execution: { maxDurationSec: 2, onTimeout: { errorCode: LATE, reason: took too long } }
  start: book
  states:
    book: { type: task, task: { kind: httpCall:v1, method: GET, url: 'https://a.example', timeoutMs: 1000, resultVar: a }, next: pick }
    pick: { type: choice, choices: [{ when: { predicate: { lang: jsonata, expr: context.a.ok } }, next: charge }], default: none }
    charge: { type: task, task: { kind: httpCall:v1, method: GET, url: 'https://b.example', resultVar: b }, next: done }
    done: { type: succeed }
    none: { type: fail, errorCode: NONE, reason: nothing there }
`
const file = join(directory, 'flight.yaml')
writeFileSync(file, FLIGHT)

async function simulate(...args: string[]): Promise<{ code: number; text: string }> {
  return simulateOn(80, args)
}

async function simulateOn(width: number, args: readonly string[]): Promise<{ code: number; text: string }> {
  let text = ''
  const write = (line: string): void => void (text += `${line}\n`)
  const code = await runCurfew(['journey', 'simulate', ...args], { env: {}, width, colour: false, write })
  return { code, text }
}

describe('simulate', () => {
  test('draws every state on the axis of the budget, and says where the deadline strikes', async () => {
    const { code, text } = await simulate(
      file,
      '--set',
      'book=500ms',
      '--set',
      'charge=forever',
      '--choose',
      'pick=charge',
    )
    expect(text).toBe(
      [
        'flight 1.0.0: 2 s in all (as its definition says)',
        '',
        'state   starts    ends    may take  0──────────────────────────────────────2 s',
        'book         0  500 ms         1 s  ███████████',
        'pick    500 ms  500 ms                         ·',
        'charge  500 ms     2 s  1.5 s left             ███████████████████████████████✂',
        '',
        '✂ It times out after 2 s, in charge: LATE: took too long',
        'Never starts: done',
        'Without a deadline it would take 10.5 s.',
        'Not reached: none',
        '',
      ].join('\n'),
    )
    expect(code).toBe(4)
  })

  test('its exit code says how the run would end', async () => {
    expect((await simulate(file, '--choose', 'pick=charge')).code).toBe(0)
    const failed = await simulate(file)
    expect(failed).toMatchObject({ code: 3, text: expect.stringContaining('It fails after 0 ms in none: NONE') })
  })

  test('--json is the plan itself', async () => {
    const { text } = await simulate(file, '--set', 'book=1s', '--json')
    const plan = JSON.parse(text) as { budgetMs: number; visits: object[] }
    expect(plan).toMatchObject({ budgetMs: 2000, limitedBy: 'spec', end: { kind: 'Fail', afterMs: 1000 } })
    expect(plan.visits[0]).toMatchObject({ path: 'book', endedBy: 'own limit', effectiveMs: 1000, limit: 'own' })
  })

  test('the limits of the server count too', async () => {
    const { text } = await simulate(file, '--set', 'book=1s', '--run-cap', '1s', '--json')
    expect(JSON.parse(text)).toMatchObject({ limitedBy: 'platform-cap', end: { kind: 'Timeout', path: 'book' } })
  })

  test('a definition that is not valid is reported with the places of its errors', async () => {
    const broken = join(directory, 'broken.yaml')
    writeFileSync(broken, FLIGHT.replace('next: pick', 'next: pikc'))
    const { code, text } = await simulate(broken)
    expect(code).toBe(1)
    expect(text).toMatch(/broken\.yaml:\d+:\d+ error GRAPH-1: .*pikc/)
  })

  test('prints what docs/journeys.md says it prints', async () => {
    const root = fileURLToPath(new URL('../../../../', import.meta.url))
    const page = readFileSync(join(root, 'docs', 'journeys.md'), 'utf8')
    const [, command = '', printed] = /^\$ curfew journey simulate (.*?)\n(flight .*?)```/ms.exec(page) ?? []
    const [path = '', ...args] = command.replace('\\\n', '').trim().split(/\s+/)
    expect((await simulateOn(100, [join(root, path), ...args])).text).toBe(printed)
  })

  test.each([
    [['--set', 'bokk=1s'], /bokk is not a state of flight/],
    [['--set', 'book=soon'], /--set book must be a length/],
    [['--set', 'book'], /needs a state and a value/],
    [['--choose', 'pick=nowhere'], /pick does not lead to nowhere/],
    [['--sett', 'x'], /--sett.*Usage/],
    [['other.yaml'], /Unexpected argument "other.yaml"/],
  ])('%j is refused', async (args, message) => {
    const error = await simulate(file, ...args).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(SettingsError)
    expect(String(error)).toMatch(message)
  })
})
