/** The SDK as an application has it: from the build, over real sockets, in a process of its own. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { Client, defineJob, type JobView } from '@curfew/sdk'
import { ServerProcess, temporaryDirectory, until } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const mail = defineJob<[n: number]>('mail.send')

/** The examples of a page, one program. */
function examplesOf(page: string, which: 'all' | 'that run'): string {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = [...text.matchAll(/^```ts( no-run)?\n(.*?)^```$/gms)]
  return blocks.flatMap(([, noRun, code]) => (which === 'all' || noRun === undefined ? [code ?? ''] : [])).join('\n')
}

/** A folder in which the packages of this repository are installed. */
function application(): string {
  const home = temporaryDirectory()
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))
  writeFileSync(join(home, 'package.json'), '{"type":"module"}')
  return home
}

function run(code: string, home = application()) {
  const file = join(home, 'example.mjs')
  writeFileSync(file, code)
  return spawnSync(process.execPath, [file], { cwd: home, encoding: 'utf8', timeout: 30_000 })
}

describe.each([
  'packages/sdk/README.md',
  'docs/sdk-client.md',
  'docs/sdk-journeys.md',
  'docs/workflows.md',
  'docs/webhooks.md',
])('the examples of %s', (page) => {
  test('compile', () => {
    const home = application()
    mkdirSync(join(home, 'src'))
    const file = join(home, 'src', 'examples.ts')
    writeFileSync(file, examplesOf(page, 'all'))
    const { options } = ts.convertCompilerOptionsFromJson(
      {
        target: 'ES2023',
        lib: ['ES2023', 'ESNext.Disposable'],
        module: 'nodenext',
        moduleResolution: 'nodenext',
        strict: true,
        exactOptionalPropertyTypes: true,
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
  })

  test('run, and leave nothing behind that keeps the process alive', async () => {
    const server = await ServerProcess.start()
    const code = ts.transpileModule(examplesOf(page, 'that run'), {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    }).outputText
    const { status, signal, stderr } = run(code.replaceAll('http://127.0.0.1:8080', server.url))
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' })
    await server.stop()
  })
})

test('a client that was not closed does not keep the process alive either', async () => {
  const server = await ServerProcess.start()
  const { status, stdout } = run(`
    import { Client, defineJob } from '@curfew/sdk'
    const client = new Client({ url: '${server.url}' })
    await Promise.all([1, 2, 3].map((n) => client.enqueue(defineJob('a.b'), [n])))
    console.log('done')
  `)
  expect([status, stdout]).toEqual([0, 'done\n'])
  await server.stop()
})

test('jobs enqueued while the server is killed and started again are stored, each once', async () => {
  let server = await ServerProcess.start()
  const { data } = server
  const there = (url: string, init: RequestInit): Promise<Response> =>
    fetch(url.replace('http://curfew.test', server.url), init)
  const client = new Client({ url: 'http://curfew.test', fetch: there, retries: 20 })
  const sent: Promise<JobView>[] = []
  let isOver = false
  const storm = (async () => {
    for (let n = 0; !isOver; n += 1) {
      sent.push(client.enqueue(mail, [n]))
      if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
      if (n % 100 === 0) await sent[n]
    }
  })()
  for (let kill = 0; kill < 3; kill += 1) {
    const before = sent.length
    await until('the storm blows', () => (sent.length > before + 500 ? true : undefined))
    await server.kill()
    server = await ServerProcess.start({ data })
  }
  isOver = true
  await storm
  const jobs = await Promise.all(sent)
  const stored: number[] = []
  for await (const { args } of client.list()) stored.push(args[0] as number)
  expect(stored.sort((a, b) => a - b)).toEqual(jobs.map((_, n) => n))
  await client.close()
  await server.stop()
})
