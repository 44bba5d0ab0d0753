import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openSecrets, secretsInEnvironment } from './secrets.ts'

let folder: string
let file: string
let nowMs = 0
let lines: string[] = []

const note = (fields: object, message: string): void => {
  lines.push(`${message} ${JSON.stringify(fields)}`)
}
const log = { info: note, warn: note, error: note }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'curfew-secrets-'))
  file = join(folder, 'secrets.yaml')
  lines = []
  nowMs = 0
})
afterEach(() => {
  rmSync(folder, { recursive: true })
})

const write = (text: string): void => {
  writeFileSync(file, text)
  chmodSync(file, 0o600)
}
const open = (given: Record<string, string> = {}): ReturnType<typeof openSecrets> =>
  openSecrets({ given, file, log, host: { monotonicMs: () => nowMs } })

test('secrets come from a file, as YAML or JSON', () => {
  write('payments/token: abc\nshop.key: "42"\n')
  expect(open().valueOf('payments/token')).toBe('abc')
  expect(open().valueOf('shop.key')).toBe('42')
  expect(open().valueOf('other')).toBeNull()
  write('{"payments/token":"def"}')
  expect(open().valueOf('payments/token')).toBe('def')
  expect(lines).toEqual([])
})

test('the environment wins over the file', () => {
  write('payments/token: abc')
  const env = { CURFEW_SECRET_PAYMENTS_TOKEN: 'from the environment', PATH: '/bin', CURFEW_PORT: '1' }
  expect(secretsInEnvironment(env)).toEqual({ CURFEW_SECRET_PAYMENTS_TOKEN: 'from the environment' })
  const secrets = open(secretsInEnvironment(env))
  for (const name of ['payments/token', 'payments-token', 'PAYMENTS.TOKEN'])
    expect(secrets.valueOf(name)).toBe('from the environment')
})

test('a program gives them by their names', () => {
  write('{}')
  expect(open({ 'payments/token': 'mine' }).valueOf('payments/token')).toBe('mine')
})

test('a file that changes is read again; one that breaks leaves the values before', () => {
  write('token: old')
  const secrets = open()
  write('token: newer')
  expect(secrets.valueOf('token')).toBe('old')
  nowMs = 1_000
  expect(secrets.valueOf('token')).toBe('newer')
  write('token: [unclosed')
  nowMs = 2_000
  expect(secrets.valueOf('token')).toBe('newer')
  expect(lines.at(-1)).toContain('the values before stay in use')
  expect(lines.join()).not.toContain('unclosed')
})

describe('a start is refused', () => {
  test.each([
    ['a list', '[1, 2]', /must hold names with their values/],
    ['a number', 'token: 42', /"token" in .* put it in quotes/],
    ['an empty text', 'token: ""', /must be a text/],
    ['a text that is neither', 'token: [', /must be readable, and JSON or YAML/],
  ])('for %s', (_, text, message) => {
    write(text)
    expect(() => open()).toThrow(message)
  })

  test('for a file that is not there', () => {
    expect(() => open()).toThrow(/Cannot read the secrets file .* \(ENOENT\)/)
  })
})

test('a file that others can read is warned about', () => {
  write('token: abc')
  chmodSync(file, 0o644)
  open()
  expect(lines).toEqual([expect.stringContaining('chmod 600')])
})
