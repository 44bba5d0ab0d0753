/** The web examples: the same conversation over plain HTTP, and the parts for Next.js and NestJS without their frameworks. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { Client, type Worker } from '@curfew/sdk'
import { runNode, ServerProcess, until, within } from './server-process.ts'

const examples = fileURLToPath(new URL('../../examples/', import.meta.url))

/** The examples are JavaScript: what a test uses of one, it says. */
const load = async <T>(path: string): Promise<T> => (await import(join(examples, path))) as T

interface Answer {
  readonly status: number
  readonly body: { readonly id: string }
}
interface Reports {
  readonly makeWorker: () => Worker
  readonly createReport: (client: Client, body: object) => Promise<Answer>
  readonly readReport: (client: Client, id: string) => Promise<Answer>
}
interface Conversation {
  readonly converse: (base: string, ports: ConversationPorts) => Promise<void>
}
interface ConversationPorts {
  readonly client: Client
  readonly terminate: () => Promise<number | null>
}
interface Life {
  onApplicationBootstrap(): Promise<void>
  onApplicationShutdown(): Promise<void>
}
interface NestModule {
  readonly CURFEW: symbol
  readonly CurfewLife: unknown
  readonly CurfewModule: {
    forRoot(options: object): {
      readonly global: boolean
      readonly exports: readonly unknown[]
      readonly providers: readonly { provide: unknown; useValue?: Client; useFactory?: () => Life }[]
    }
  }
}

let server: ServerProcess
let client: Client
beforeAll(async () => {
  server = await ServerProcess.start()
  client = new Client({ url: server.url })
  process.env['CURFEW_URL'] = server.url // read when the examples are loaded
  return () => client.close()
})

test('a web server enqueues, reads, and finishes its requests and jobs before it leaves', async () => {
  const app = runNode(join(examples, 'web/node-http.mjs'), { CURFEW_URL: server.url, PORT: '0' })
  const base = await until('it listens', () => /listening on (\S+)/.exec(app.output.stdout)?.[1])
  const { converse } = await load<Conversation>('web/conversation.mjs')
  const terminate = async (): Promise<number | null> => {
    app.signal('SIGTERM')
    return (await within('it leaves', app.exited)).code
  }
  await converse(base, { client, terminate })
  expect(app.output.stderr).toBe('')
})

test('the worker of its own leaves with 0 on SIGTERM, and the route handlers of Next.js find its results', async () => {
  const worker = runNode(join(examples, 'web/worker.mjs'), { CURFEW_URL: server.url })
  const [{ POST }, { GET }, { client: own }] = await Promise.all([
    load<{ POST: (request: Request) => Promise<Response> }>('web/next/app/api/reports/route.mjs'),
    load<{ GET: (request: Request, context: object) => Promise<Response> }>('web/next/app/api/reports/[id]/route.mjs'),
    load<{ client: Client }>('web/next/client.mjs'),
  ])
  onTestFinished(() => own.close())
  const request = (body: object): Request =>
    new Request('http://next.test/api/reports', { method: 'POST', body: JSON.stringify(body) })
  const refused = await POST(request({}))
  expect(refused.status).toBe(400)
  const created = await POST(request({ name: 'q3' }))
  expect(created.status).toBe(202)
  const { id } = (await created.json()) as { id: string }
  await until('the report is done', async () => (await client.get(id)).state === 'completed')
  const read = await GET(new Request('http://next.test'), { params: Promise.resolve({ id }) })
  expect([read.status, await read.json()]).toEqual([200, { name: 'q3', pages: 2 }])
  worker.signal('SIGTERM')
  expect(await within('the worker leaves', worker.exited)).toEqual({ code: 0, signal: null })
})

test('the module of NestJS gives one client to the application, and its hooks start and stop the worker', async () => {
  const [{ CURFEW, CurfewLife, CurfewModule }, { makeWorker, createReport, readReport }] = await Promise.all([
    load<NestModule>('web/nest/curfew.module.mjs'),
    load<Reports>('web/reports.mjs'),
  ])
  const { providers, exports, global } = CurfewModule.forRoot({ url: server.url, makeWorker })
  expect([exports, global]).toEqual([[CURFEW], true])
  const client = providers.find(({ provide }) => provide === CURFEW)?.useValue
  const life = providers.find(({ provide }) => provide === CurfewLife)?.useFactory?.()
  if (client === undefined || life === undefined) throw new Error('the module provides nothing')
  await life.onApplicationBootstrap()
  const { body } = await createReport(client, { name: 'nest' })
  await until('the report is done', async () => (await client.get(body.id)).state === 'completed')
  expect(await readReport(client, body.id)).toEqual({ status: 200, body: { name: 'nest', pages: 4 } })
  await life.onApplicationShutdown()
  await expect(client.health()).rejects.toMatchObject({ code: 'closed' })
})

test('the tests of an application pass under vitest, with the test kit', async () => {
  const vitest = join(createRequire(import.meta.url).resolve('vitest/package.json'), '../vitest.mjs')
  const child = runNode([vitest, 'run', '--root', join(examples, 'vitest')])
  const exit = await within('vitest ends', child.exited, 110_000)
  expect(exit, child.output.stderr).toEqual({ code: 0, signal: null })
  expect(child.output.stdout).toContain('2 passed')
})
