/** What an operator can read of a run: with what it began, and what each state wrote; with secrets masked. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { idle, TestServer, type Reply } from '../harness.ts'
import { begin, call, deploy, jsonata, PLAIN, runUrl, succeed, Upstream, wait } from '../journey-stage.ts'

let server: TestServer
let upstream: Upstream

beforeEach(async () => {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send })
})
afterEach(() => server.close())

interface Step {
  readonly state: string
  readonly wrote?: unknown
  readonly removed?: unknown
  readonly context?: unknown
  readonly isCut?: boolean
}
interface History {
  readonly input: unknown
  readonly context: unknown
  readonly steps: readonly Step[]
}

const write = (expr: string, resultVar: string, next: string): object => ({
  type: 'transform',
  transform: { mapper: jsonata(expr), target: { kind: 'var' }, resultVar },
  next,
})

async function started(spec: object, body: object): Promise<string> {
  await deploy(server, { lifecycle: { startMode: 'async' }, ...spec })
  const reply = await begin(server, body)
  await idle()
  return String(reply.body['journeyId'])
}

const historyOf = async (id: string): Promise<History> =>
  (await server.get(`${runUrl(id)}/history`)).body as unknown as History
const submit = (id: string, body: unknown): Promise<Reply> =>
  server.call('POST', `${runUrl(id)}/steps/approve`, body, PLAIN)

test('the history has the input, what each state wrote and the context afterwards', async () => {
  const states = {
    sum: write('context.a + 1', 'b', 'ask'),
    ask: call({}, 'approve'),
    approve: wait({}, 'done'),
    done: succeed,
  }
  const id = await started({ start: 'sum', states }, { a: 1 })
  await upstream.answer({ price: 7 })
  await submit(id, { ok: true })
  await idle()
  const { input, context, steps } = await historyOf(id)
  const answer = expect.objectContaining({ ok: true, body: { price: 7 } }) as object
  expect(input).toEqual({ a: 1 })
  expect(steps).toMatchObject([
    { state: 'sum', wrote: { b: 2 }, context: { a: 1, b: 2 } },
    { state: 'ask', wrote: { answer }, context: { a: 1, b: 2, answer } },
    { state: 'approve', wrote: { payload: { ok: true } }, context: { a: 1, b: 2, answer, payload: { ok: true } } },
    { state: 'done', context: { a: 1, b: 2, answer, payload: { ok: true } } },
  ])
  expect(context).toMatchObject({ a: 1, b: 2, payload: { ok: true } })
  const explained = (await server.get(`${runUrl(id)}/explain`)).body as unknown as { input: unknown; states: Step[] }
  expect(explained.input).toEqual({ a: 1 })
  expect(explained.states[0]).toMatchObject({ state: 'sum', wrote: { b: 2 } })
  const { text } = await server.get(`/journeys/${id}`)
  expect(text).toContain('<summary>Input</summary>')
  expect(text).toContain('sum wrote (step 1)')
  expect(text).toContain('ask wrote (step 2)')
})

test('a state that takes the place of the whole context tells what it removed', async () => {
  const replace = { type: 'transform', transform: { mapper: jsonata('{"kept": context.a}') }, next: 'done' }
  const id = await started({ start: 'replace', states: { replace, done: succeed } }, { a: 1, b: 2 })
  const { steps } = await historyOf(id)
  expect(steps[0]).toMatchObject({ wrote: { kept: 1 }, removed: ['a', 'b'], context: { kept: 1 } })
})

test('branches are shown with contexts of their own', async () => {
  const branch = (name: string): object => ({
    name,
    start: 'set',
    states: { set: write(`"${name}"`, 'me', 'end'), end: succeed },
  })
  const fan = {
    type: 'parallel',
    parallel: { branches: [branch('x'), branch('y')], join: { resultVar: 'both' } },
    next: 'done',
  }
  const id = await started({ start: 'fan', states: { fan, done: succeed } }, { a: 1 })
  const { steps } = await historyOf(id)
  const after = (state: string): unknown => steps.find((step) => step.state === state)?.context
  expect(after('fan/x/set')).toEqual({ a: 1, me: 'x' })
  expect(after('fan/y/set')).toEqual({ a: 1, me: 'y' })
  expect(after('fan')).toMatchObject({ a: 1, both: { x: { me: 'x' }, y: { me: 'y' } } })
})

test('what looks like a secret is masked wherever it is shown', async () => {
  const secrets = {
    password: 'hunter2-a',
    user: { apiKey: 'hunter2-b', name: 'ada', tokens: ['hunter2-c'] },
    header: 'Bearer hunter2-d',
    tokenCount: 'hunter2-e',
    jwt: 'hunter2-g',
    link: 'https://ada:hunter2-h@a.example/x?a=1&api_key=hunter2-i',
    said: 'the header was "Authorization: Bearer hunter2-j"',
  }
  const states = { copy: write('context.user', 'account', 'approve'), approve: wait(), done: succeed }
  const id = await started({ start: 'copy', states }, secrets)
  await submit(id, { ok: true, secret: 'hunter2-f' })
  await idle()
  const { input } = await historyOf(id)
  expect(input).toMatchObject({ password: '[masked]', user: { apiKey: '[masked]', name: 'ada' }, header: '[masked]' })
  for (const path of [`${runUrl(id)}/history`, `${runUrl(id)}/explain`, `/journeys/${id}`])
    expect((await server.get(path)).text).not.toContain('hunter2')
})

test('what is long is left out by its length, and the history of a long run stays small', async () => {
  const long = 'x'.repeat(20_000)
  const states = {
    grow: write('context.long & "y"', 'copy', 'note'),
    note: write('7', 'small', 'done'),
    done: succeed,
  }
  const id = await started({ start: 'grow', states }, { long, order: 7 })
  const { input, steps } = await historyOf(id)
  expect(input).toEqual({ long: { $leftOut: 20_002 }, order: 7 })
  expect(steps[0]).toMatchObject({ wrote: { copy: { $leftOut: 20_003 } }, isCut: true })
  expect(steps[0]).not.toHaveProperty('context')
  expect(steps[1]).toMatchObject({ wrote: { small: 7 } })
})

test('names and values of data cannot break the page', async () => {
  const id = await started({ start: 'done', states: { done: succeed } }, { '<script>': '</pre><img src=x onerror=1>' })
  const { text } = await server.get(`/journeys/${id}`)
  expect(text).not.toContain('<img')
  expect(text).toContain('&lt;script&gt;')
})
