/** The test kit works in every test runner, as it is published. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runNode, within } from './server-process.ts'

const folder = fileURLToPath(new URL('./runners/', import.meta.url))

async function run(args: readonly string[]): Promise<string> {
  const child = runNode(args)
  const exit = await within('the runner ends', child.exited, 60_000)
  const said = child.output.stdout + child.output.stderr
  expect(exit, said).toEqual({ code: 0, signal: null })
  return said
}

test('node:test', async () => {
  expect(await run(['--test', '--test-reporter=tap', `${folder}story.node.mjs`])).toContain('# pass 1')
})

test('jest', async () => {
  const jest = createRequire(import.meta.url).resolve('jest/bin/jest')
  const args = [
    '--experimental-vm-modules',
    '--no-warnings',
    jest,
    '--config',
    `${folder}jest.config.json`,
    '--rootDir',
    folder,
  ]
  expect(await run(args)).toContain('1 passed')
})
