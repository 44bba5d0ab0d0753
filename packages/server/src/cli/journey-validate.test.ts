import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { days } from '@curfew/core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SettingsError } from '../settings.ts'
import { judgeFile } from './journey-files.ts'
import { shown } from './journey-validate.ts'
import { runCurfew } from './run.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'curfew-validate-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true })
})

const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
async function run(...args: string[]): Promise<{ code: number; out: string }> {
  let out = ''
  const write = (text: string): void => void (out += `${text}\n`)
  const code = await runCurfew(['journey', 'validate', ...args], { env: {}, width: 80, colour: false, write })
  return { code, out }
}

const GOOD = `apiVersion: v1
kind: Journey
metadata: { name: good, version: 1.0.0 }
spec:
  execution: { maxDurationSec: 30, onTimeout: { errorCode: LATE, reason: too late } }
  start: end
  states: { end: { type: succeed } }
`

test('a valid definition is reported in one line, without a warning', async () => {
  const file = write('good.yaml', GOOD)
  expect(await run(file)).toEqual({ code: 0, out: `${file}: Journey good 1.0.0, a run may take 30 s; 0 warnings\n` })
})

test('a bad one is shown with its lines, and a mark below each place', async () => {
  const good = write('good.yaml', GOOD)
  const bad = write('bad.yaml', GOOD.replace('kind: Journey', 'kind: Workflow').replace('start: end', 'start: begin'))
  const { code, out } = await run(good, bad)
  expect(code).toBe(1)
  expect(out.split('\n').slice(1)).toEqual([
    `${bad}:2:7 warning DEPR-1: kind Workflow is deprecated; write Journey.`,
    ' 2 | kind: Workflow',
    '   |       ^',
    '',
    `${bad}:6:10 error GRAPH-1: start leads to "begin", which is not a state of this graph.`,
    ' 6 |   start: begin',
    '   |          ^',
    '',
    `${bad}: 1 error, 1 warning`,
    '',
  ])
})

test('warnings alone do not fail', async () => {
  expect((await run(write('old.yaml', GOOD.replace('Journey', 'Workflow')))).code).toBe(0)
})

test('the limits of the server count, if they are given', async () => {
  const { out } = await run(write('good.yaml', GOOD), '--run-cap', '10s', '--run-default', '5s')
  expect(out).toContain('a run may take 10 s; 1 warning')
})

test('--json tells the same to programs', async () => {
  const file = write('bad.yaml', GOOD.replace('start: end', 'start: begin'))
  const { code, out } = await run(file, '--json')
  expect(code).toBe(1)
  expect(JSON.parse(out)).toEqual({
    files: [
      {
        file,
        valid: false,
        errors: [expect.objectContaining({ code: 'GRAPH-1', path: '/spec/start', line: 6, column: 10 })],
        warnings: [],
      },
    ],
  })
})

test('without a file, or with an unknown flag, it is used wrongly', async () => {
  await expect(run()).rejects.toThrow(SettingsError)
  await expect(run('--frobnicate', 'x')).rejects.toThrow(SettingsError)
})

test('colours are for terminals, and a file cannot speak to one', () => {
  const error = { code: 'X-1', path: '', line: 1, column: 2, message: 'wrong \u001b[2J' }
  const judged = {
    file: 'f',
    text: '\ta\u001b[2J',
    definition: null,
    source: null,
    effectiveMaxDurationSec: null,
    warnings: [],
  }
  expect(shown({ ...judged, errors: [error] }, false)).not.toContain('\u001b')
  expect(shown({ ...judged, errors: [error] }, false)).toContain('   | \t^')
  expect(shown({ ...judged, errors: [error] }, true)).toContain('\u001b[31merror\u001b[0m')
})

test('of a very long line the part around the place is shown', () => {
  const error = { code: 'X-1', path: '', line: 1, column: 5_001, message: 'wrong' }
  const text = `${'a'.repeat(5_000)}Z${'b'.repeat(5_000)}`
  const out = shown(
    { file: 'f', text, definition: null, source: null, effectiveMaxDurationSec: null, warnings: [], errors: [error] },
    false,
  )
  const [, line = '', mark = ''] = out.split('\n')
  expect(line.length).toBeLessThan(160)
  expect(line[mark.indexOf('^')]).toBe('Z')
})

describe('OpenAPI documents in files', () => {
  const document = `openapi: 3.1.0
servers: [{ url: https://users.example/v2/ }]
paths:
  /users/{id}: { get: { operationId: getUser } }
`
  const calling = (ref: string): string => `apiVersion: v1
kind: Journey
metadata: { name: a, version: 1.0.0 }
spec:
  apis: { users: { openApiRef: ${ref} } }
  start: load
  states:
    load:
      type: task
      task: { kind: httpCall:v1, operationRef: users.getUser, params: { path: { id: '\${context.id}' } }, resultVar: user }
      next: end
    end: { type: succeed }
`

  test('are found beside the definition, and go with it to the server', async () => {
    write('users.yaml', document)
    const file = write('calls.yaml', calling('./users.yaml'))
    expect((await run(file)).code).toBe(0)
    const { source } = await judgeFile(file, { defaultMs: days(1), capMs: days(7) })
    expect(source).toMatchObject({ spec: { start: 'load', apis: { users: { openApi: { openapi: '3.1.0' } } } } })
  })

  test('one that cannot be read is reported at its name', async () => {
    const { code, out } = await run(write('calls.yaml', calling('./unknown.yaml')))
    expect(code).toBe(1)
    expect(out).toMatch(/:5:32 error HTTP-1: No such file: \S+\/unknown\.yaml\. --root DIR names another folder/)
  })

  describe('outside of the folder of the definition and of the root', () => {
    const limits = { defaultMs: days(1), capMs: days(7) }
    const problems = async (ref: string, root?: string): Promise<string[]> => {
      const file = write(join('inner', 'calls.yaml'), calling(ref))
      return (await judgeFile(file, limits, root)).errors.map(({ message }) => message)
    }
    const place = (): string => {
      mkdirSync(join(folder, 'inner'), { recursive: true })
      return write('secret.yaml', document)
    }

    test('they are not read by ..', async () => {
      place()
      expect(await problems('../secret.yaml')).toEqual([expect.stringContaining('must be a file within')])
      expect(await problems('nested/../../secret.yaml')).toEqual([expect.stringContaining('must be a file within')])
    })

    test('they are not read by an absolute path', async () => {
      const outside = place()
      expect(await problems(outside)).toEqual([expect.stringContaining('must be a file within')])
    })

    test('they are not read through a link', async () => {
      const outside = place()
      symlinkSync(outside, join(folder, 'inner', 'link.yaml'))
      symlinkSync(folder, join(folder, 'inner', 'up'))
      expect(await problems('./link.yaml')).toEqual([expect.stringContaining('must be a file within')])
      expect(await problems('./up/secret.yaml')).toEqual([expect.stringContaining('must be a file within')])
    })

    test('folders are not read', async () => {
      place()
      mkdirSync(join(folder, 'inner', 'apis'), { recursive: true })
      expect(await problems('./apis')).toEqual([expect.stringContaining('must be a file within')])
    })

    test('they are read where the root has them', async () => {
      const outside = place()
      expect(await problems('../secret.yaml', folder)).toEqual([])
      expect(await problems(outside, folder)).toEqual([])
    })
  })
})
