/** The README's program runs as it stands, on the packages as they are built. */
import { spawnSync } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { ServerProcess, temporaryDirectory } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

function program(page = 'README.md'): string {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code ?? '')
  expect(blocks).toHaveLength(1)
  return blocks[0] ?? ''
}

/** A folder that resolves the packages of this repository, as a file in the clone does. */
function folder(): string {
  const home = temporaryDirectory()
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))
  writeFileSync(join(home, 'package.json'), '{"type":"module"}')
  return home
}

test('the program of the README is at most fifteen lines of TypeScript, and compiles', () => {
  const home = folder()
  const file = join(home, 'first.ts')
  writeFileSync(file, program())
  const { options } = ts.convertCompilerOptionsFromJson(
    {
      target: 'ES2023',
      lib: ['ES2023'],
      module: 'nodenext',
      moduleResolution: 'nodenext',
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
      typeRoots: [join(root, 'node_modules', '@types')],
      preserveSymlinks: true,
    },
    home,
  )
  const problems = ts.getPreEmitDiagnostics(ts.createProgram([file], options))
  expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])
  const lines = program()
    .split('\n')
    .filter((line) => line.trim() !== '')
  expect(lines.length).toBeLessThanOrEqual(15)
})

test('the program of the README enqueues, works, times out and explains', async () => {
  const server = await ServerProcess.start()
  const home = folder()
  const file = join(home, 'first.mjs')
  const code = program()
  expect(code).toContain("'http://127.0.0.1:8080'")
  writeFileSync(file, code.replace('http://127.0.0.1:8080', server.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], {
    cwd: home,
    encoding: 'utf8',
    timeout: 90_000,
  })
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' })
  const [hello, failed, ...explained] = stdout.trimEnd().split('\n')
  expect(hello).toMatch(/^Hello, Ada! \d+ ms left\.$/)
  // The worker reports the timeout, or the server decides first on a busy machine.
  expect(failed).toMatch(/^Job \S+ ended discarded: (Timed out after 1s |Job execution exceeded timeout of 1 second$)/)
  expect(explained[0]).toMatch(/ enqueued$/)
  expect(explained[1]).toMatch(/ attempt 1 started by /)
  expect(explained.at(-1)).toMatch(/^Ended discarded: timeout \(timeout 1 s /)
  await server.stop()
})

test('the program of the server’s own README runs the server inside its process', () => {
  const home = folder()
  const file = join(home, 'embedded.mjs')
  writeFileSync(file, program('packages/server/README.md'))
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], {
    cwd: home,
    encoding: 'utf8',
    timeout: 90_000,
  })
  expect({ status, stdout, stderr }).toEqual({
    status: 0,
    stdout: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\n$/) as string,
    stderr: '',
  })
})
