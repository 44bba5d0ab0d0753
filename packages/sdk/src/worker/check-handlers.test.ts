import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkHandlers } from './check-handlers.ts'
import { CurfewError } from '../errors.ts'
import { makeHandler, type HandlerOptions, type Registered } from './handlers.ts'
import type { IsolateKind } from '../isolate/isolate.ts'
import type { ErrorData } from '../attempt/facts.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'curfew-handlers-'))
})
afterEach(() => {
  rmSync(home, { recursive: true })
})

const put = (name: string): void => {
  writeFileSync(join(home, name), 'export default () => null\n')
}
const urlOf = (name: string): string => pathToFileURL(join(home, name)).href

describe('the check of handlers at the start', () => {
  const ofModule = (type: string, options: HandlerOptions): Registered => makeHandler(type, options, null, {})

  /** What isolates answer, by export; the kinds they were asked about. */
  function isolates(errors: Record<string, ErrorData> = {}) {
    const asked: IsolateKind[] = []
    const check = async (kind: IsolateKind): Promise<ErrorData | null> => {
      asked.push(kind)
      return errors[kind.exportName] ?? null
    }
    return { asked, check }
  }

  const failureOf = async (checking: Promise<void>): Promise<CurfewError> => {
    const error: unknown = await checking.catch((thrown: unknown) => thrown)
    if (!(error instanceof CurfewError)) throw new Error(`not an error of the SDK: ${String(error)}`)
    return error
  }

  test('loads an inline module in place, and asks isolates about the others, each kind once', async () => {
    put('x.js')
    const { asked, check } = isolates()
    const module = new URL(urlOf('x.js'))
    await checkHandlers(
      [
        ofModule('a', { module }),
        ofModule('b', { module, isolation: 'thread' }),
        ofModule('c', { module, isolation: 'thread', timeout: '1s' }),
        ofModule('d', { module, isolation: 'thread', exportName: 'other' }),
        makeHandler('e', {}, () => null, {}),
      ],
      check,
    )
    expect(asked.map(({ isolation, exportName }) => [isolation, exportName])).toEqual([
      ['thread', 'default'],
      ['thread', 'other'],
    ])
  })

  test.each<[string, HandlerOptions, string, string]>([
    ['missing', { module: '/nowhere/x.js' }, 'module_not_found', 'deploy it with the worker'],
    ['without the export', { exportName: 'other' }, 'export_not_found', 'exportName'],
    ['broken', { module: 'data:text/javascript,throw new Error("no database")' }, 'module_failed', 'no database'],
  ])(
    'an inline module that is %s is an error with the type, the module and the remedy',
    async (_how, options, code, words) => {
      put('x.js')
      const { module = urlOf('x.js') } = options
      const url = typeof module === 'string' && module.startsWith('data:') ? new URL(module) : module
      const error = await failureOf(
        checkHandlers([ofModule('video.cut', { ...options, module: url })], isolates().check),
      )
      expect(error.code).toBe(code)
      for (const word of ['video.cut', String(module), words]) expect(error.message).toContain(word)
    },
  )

  test('names every handler that cannot run, with all types that share it', async () => {
    const error = { name: 'IsolateError', code: 'export_not_found', message: 'no such export' }
    const slow = {
      name: 'IsolateError',
      code: 'isolate_start_timeout',
      message: 'too slow',
      stack: 'at load (x.js:1:1)',
    }
    const { check } = isolates({ first: error, second: slow })
    put('x.js')
    const module = urlOf('x.js')
    const failure = await failureOf(
      checkHandlers(
        [
          ofModule('a', { module, isolation: 'process', exportName: 'first' }),
          ofModule('b', { module, isolation: 'process', exportName: 'first' }),
          ofModule('c', { module, isolation: 'process', exportName: 'second' }),
          ofModule('d', { module, isolation: 'process' }),
        ],
        check,
      ),
    )
    expect(failure.code).toBe('export_not_found')
    expect(failure.message.split('\n')).toEqual([
      'The handler of a, b cannot run: no such export',
      'The handler of c cannot run: too slow',
      '    at load (x.js:1:1)',
    ])
    expect(failure.details).toEqual({
      handlers: [
        { types: ['a', 'b'], module, export: 'first', code: 'export_not_found' },
        { types: ['c'], module, export: 'second', code: 'isolate_start_timeout' },
      ],
    })
  })
})
