import { describe, expect, test } from 'vitest'
import { execArgv } from './process-isolate.ts'

describe('the flags a process isolate is started with', () => {
  test("are the worker's own, so that handlers load as they would there", () => {
    const own = ['--enable-source-maps', '--conditions=development', '--max-old-space-size=4096']
    expect(execArgv(own, null)).toEqual(own)
  })

  test('leave out debuggers, and programs given on the command line', () => {
    expect(execArgv(['--inspect-brk=9229', '--input-type=module', '-e', 'run()', '--no-warnings'], null)).toEqual([
      '--no-warnings',
    ])
  })

  test('bring the memory limit of the handler instead of that of the worker', () => {
    expect(execArgv(['--max-old-space-size=4096', '--max_old_space_size=1'], 64)).toEqual(['--max-old-space-size=64'])
  })
})
