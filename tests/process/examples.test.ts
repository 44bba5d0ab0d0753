/** Every example does what it says, as a newcomer would run it. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
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

test('embedded', async () => {
  expect(await run('embedded/main.mjs')).toBe('1 4 9 16\n')
})
