/**
 * What must not compile. `tsc` reads this file and nothing runs it: every `@ts-expect-error` is a mistake the types have
 * to catch, and an error of its own when they do not.
 */
import { expectTypeOf } from 'vitest'
import { type } from 'arktype'
import type { Client as PgClient, PoolClient } from 'pg'
import * as v from 'valibot'
import { z } from 'zod'
import {
  batch,
  chain,
  Client,
  dag,
  duration,
  defineJob,
  enqueueInTransaction,
  entry,
  graph,
  group,
  journey,
  jsonata,
  schema,
  state,
  RetryAfter,
  timeout,
  Worker,
  type Context,
  type DeadlineKind,
  type JobHandle,
  type JobView,
  journeyRef,
  type JourneyDefinition,
  type WorkflowView,
} from './index.ts'
import { handlerLimits } from './job/limits.ts'

declare const client: Client
declare const setting: string
const transcode = defineJob('video.transcode', {
  input: z.tuple([z.string(), z.enum(['720p', '1080p'])]),
  output: z.object({ url: z.string(), at: z.string().transform((text) => new Date(text)) }),
})
const mail = defineJob<[to: string, times?: number]>('mail.send')
const loose = defineJob('a.loose')
const withValibot = defineJob('a.v', { input: v.object({ id: v.string() }), output: v.number() })
const withArktype = defineJob('a.t', { input: type({ id: 'string', 'n?': 'number' }) })

// ---- Inputs ----

void client.enqueue(transcode, ['v1', '720p'])
void client.enqueue(mail, ['a'])
void client.enqueue(mail, ['a', 2])
void client.enqueue(loose, [1, 'anything'])
void client.enqueue(withValibot, { id: 'x' })
void client.enqueue(withArktype, { id: 'x' })
// @ts-expect-error a size that is none
void client.enqueue(transcode, ['v1', '480p'])
// @ts-expect-error one argument is missing
void client.enqueue(transcode, ['v1'])
// @ts-expect-error one argument too many
void client.enqueue(transcode, ['v1', '720p', 'x'])
// @ts-expect-error not the list of arguments
void client.enqueue(transcode, 'v1')
// @ts-expect-error a number where a text belongs
void client.enqueue(mail, [5])
// @ts-expect-error without a schema the input is a list
void client.enqueue(loose, { a: 1 })
// @ts-expect-error no id
void client.enqueue(withValibot, {})
// @ts-expect-error a number where a text belongs
void client.enqueue(withArktype, { id: 5 })
void client.enqueueMany(mail, [['a'], ['b']])
// @ts-expect-error one of them is wrong
void client.enqueueMany(mail, [['a'], [5]])
// @ts-expect-error many jobs cannot share an id
void client.enqueueMany(mail, [['a']], { id: 'x' })
void client.enqueueMany([entry(mail, ['a']), entry(transcode, ['v1', '720p'], { priority: 1 })])
// @ts-expect-error the wrong arguments in an entry
void entry(transcode, ['v1'])
// @ts-expect-error a plan is as strict as an enqueue
void client.plan(transcode, ['v1'])

// ---- Limits ----

void client.enqueue(mail, ['a'], { timeout: '30s', totalTimeout: { ms: 250 }, onTimeout: 'discard' })
void client.enqueue(mail, ['a'], { ...timeout({ seconds: 30, scope: 'total' }) })
// @ts-expect-error a bare number has no unit
void client.enqueue(mail, ['a'], { timeout: 30 })
// @ts-expect-error a text without a unit
void client.enqueue(mail, ['a'], { timeout: '30' })
// @ts-expect-error there is no such unit
void client.enqueue(mail, ['a'], { timeout: '30 sec' })
// @ts-expect-error a text that is not known here
void client.enqueue(mail, ['a'], { timeout: setting })
void client.enqueue(mail, ['a'], { timeout: duration(setting), totalTimeout: '1h30m', enqueueTtl: 'PT5M' })
void client.enqueue(mail, ['a'], { timeout: '1.5s', totalTimeout: '1d2h30m' })
// @ts-expect-error there is no such mode
void client.enqueue(mail, ['a'], { onTimeout: 'delete' })
// @ts-expect-error there is no such option
void client.enqueue(mail, ['a'], { timeOut: '30s' })
// @ts-expect-error nor here
defineJob('a.b', { limits: { ttl: '30s' } })
// @ts-expect-error a bare number has no unit
defineJob('a.b', { limits: { timeout: 30 } })
// @ts-expect-error a handler cannot bring a total: that clock starts before it is known
handlerLimits('a.b', { totalTimeout: '1m' })
void client.patch('id', { timeout: null, totalTimeout: '1m' })
// @ts-expect-error a queue cannot be changed
void client.patch('id', { queue: 'other' })

// ---- Transactions ----

declare const pg: { client: PgClient; pooled: PoolClient }
void enqueueInTransaction(pg.client, mail, ['a'], { schema: 'curfew' })
void enqueueInTransaction(pg.pooled, transcode, ['v1', '720p'])
// @ts-expect-error the wrong arguments
void enqueueInTransaction(pg.pooled, transcode, ['v1'])
// @ts-expect-error nothing to query
void enqueueInTransaction({}, mail, ['a'])

// ---- Results ----

expectTypeOf(client.waitForResult('id', { job: transcode })).resolves.toEqualTypeOf<{ url: string; at: Date }>()
expectTypeOf(client.waitForResult('id', { job: withValibot, timeout: '1m' })).resolves.toEqualTypeOf<number>()
expectTypeOf(client.waitForResult('id')).resolves.toBeUnknown()
expectTypeOf(client.waitForResult('id', { job: mail })).resolves.toBeUnknown()
expectTypeOf(client.enqueue(mail, ['a'])).resolves.toExtend<JobView>()
expectTypeOf(client.enqueue(transcode, ['v1', '720p'])).resolves.toEqualTypeOf<JobHandle<{ url: string; at: Date }>>()
async function handles(): Promise<void> {
  const job = await client.enqueue(withValibot, { id: 'x' })
  expectTypeOf(await job.result()).toEqualTypeOf<number>()
  expectTypeOf(job.state).toEqualTypeOf<JobView['state']>()
  expectTypeOf(await job.cancel()).toEqualTypeOf<JobView>()
  // @ts-expect-error a bare number has no unit
  void job.result({ timeout: 5 })
  // @ts-expect-error misspelt
  void job.retry({ changes: { timeOut: '5s' } })
}
void handles
// @ts-expect-error a bare number has no unit
void client.waitForResult('id', { timeout: 5 })

// ---- Handlers ----

declare const worker: Worker
worker.handle(transcode, { timeout: '5m' }, (ctx, [id, size]) => {
  expectTypeOf(id).toBeString()
  expectTypeOf(size).toEqualTypeOf<'720p' | '1080p'>()
  return { url: ctx.jobId, at: 'now' }
})
// @ts-expect-error the handler takes an input that the job does not have
worker.handle(transcode, (_ctx, input: { id: string }) => ({ url: input.id, at: '' }))
// @ts-expect-error the result does not fit the output of the job
worker.handle(transcode, () => ({ url: 5, at: '' }))
// @ts-expect-error the result lacks a part of the output
worker.handle(transcode, () => ({ url: 'x' }))
// @ts-expect-error so it does beside options
worker.handle(transcode, { timeout: '5m' }, () => ({ url: 'x' }))
// @ts-expect-error options come before the function
worker.handle(mail, () => {}, { timeout: '5m' })
// @ts-expect-error misspelt
worker.handle(mail, { timeOut: '5m' }, () => {})
// @ts-expect-error a bare number has no unit
worker.handle(mail, { timeout: 5 }, () => {})
// @ts-expect-error a handler cannot bring a total
worker.handle(mail, { totalTimeout: '5m' }, () => {})
// @ts-expect-error there is no such isolation
worker.handle(mail, { isolation: 'fork', module: 'x' })
worker.handleBatch(transcode, { size: 10, wait: '1s' }, (items) =>
  items.map(({ input: [id] }) => (id === '' ? new Error('no id') : { url: id, at: '' })),
)
// @ts-expect-error one of the results does not fit
worker.handleBatch(transcode, { size: 10 }, (items) => items.map(() => ({ url: 5, at: '' })))
// @ts-expect-error one of the results lacks a part of the output
worker.handleBatch(transcode, { size: 10 }, (items) => items.map(() => ({ url: 'x' })))
// @ts-expect-error how many at a time?
worker.handleBatch(mail, {}, () => {})
// @ts-expect-error a batch runs in the worker itself
worker.handleBatch(mail, { size: 2, isolation: 'thread' }, () => {})
worker.on('timeout', ({ jobId, kind, limitMs }) => {
  expectTypeOf(jobId).toBeString()
  expectTypeOf(kind).toEqualTypeOf<DeadlineKind>()
  expectTypeOf(limitMs).toBeNumber()
})
// @ts-expect-error a completed attempt has no error
worker.on('completed', ({ error }) => error)
// @ts-expect-error there is no such event
worker.on('finished', () => {})
void new RetryAfter('30s')
void new RetryAfter(new Date(0), 'later', { details: { a: 1 } })
// @ts-expect-error a bare number has no unit
void new RetryAfter(30)

// ---- Types written by hand ----

interface Charge {
  id: string
  at: Date
  note?: string
}
const charge = defineJob<[order: string], Charge>('order.charge', { limits: { timeout: '5s' } })
const count = defineJob<[], number>('order.count')
expectTypeOf(client.enqueue(charge, ['o1'])).resolves.toEqualTypeOf<
  JobHandle<{ id: string; at: string; note?: string }>
>()
expectTypeOf(client.waitForResult('id', { job: charge })).resolves.toExtend<{ id: string; at: string }>()
expectTypeOf(client.waitForResult('id', { job: count })).resolves.toBeNumber()
worker.handle(charge, (_ctx, [order]) => ({ id: order, at: new Date(0) }))
worker.handle(count, async () => Promise.resolve(5))
// @ts-expect-error a date where a number belongs
worker.handle(count, () => new Date(0))
// @ts-expect-error the handler returns no id
worker.handle(charge, () => ({ at: new Date(0) }))
// @ts-expect-error the handler returns nothing
worker.handle(charge, () => {})
// @ts-expect-error the arguments are a list
defineJob<{ order: string }, Charge>('order.charge')
// @ts-expect-error written types and a schema: which one holds?
defineJob<[order: string], Charge>('order.charge', { output: v.number() })
// @ts-expect-error a number where a text belongs
void client.enqueue(charge, [5])

// ---- What JSON makes of a result ----

declare const ctx: Context
class Cart {
  readonly items: string[] = []
  total(): number {
    return this.items.length
  }
}
expectTypeOf(ctx.step('a', () => ({ id: 'x' }))).resolves.toEqualTypeOf<{ id: string }>()
expectTypeOf(ctx.step('a', () => new Date(0))).resolves.toBeString()
expectTypeOf(ctx.step('a', () => [new Date(0), null])).resolves.toEqualTypeOf<(string | null)[]>()
expectTypeOf(ctx.step('a', () => {})).resolves.toBeVoid()
expectTypeOf(ctx.step('a', (): unknown => 1)).resolves.toBeUnknown()
// eslint-disable-next-line @typescript-eslint/no-explicit-any
expectTypeOf(ctx.step('a', (): any => 1)).resolves.toBeAny()
expectTypeOf(ctx.step('a', { timeout: '5s' }, (): Charge | null => null)).resolves.toEqualTypeOf<{
  id: string
  at: string
  note?: string
} | null>()
// @ts-expect-error a method does not come back
export const cart: Promise<Cart> = ctx.step('a', () => new Cart())
expectTypeOf(ctx.step('a', () => 5n)).resolves.toBeNever()

// ---- Operators ----

void client.bulk.cancel({ filter: { queue: 'a', state: ['available'] } }, { limit: 5 })
// @ts-expect-error ids or a filter, not both
void client.bulk.cancel({ ids: ['a'], filter: {} })
// @ts-expect-error nothing says which jobs are meant
void client.bulk.cancel({})
// @ts-expect-error there is no such filter
void client.list({ errortype: 'x' })
// @ts-expect-error there is no such state
void client.list({ state: 'done' })
void client.queues.configure('mail', { defaults: { timeout: '1m', totalTimeout: null }, order: 'edf' })
// @ts-expect-error a bare number has no unit
void client.queues.configure('mail', { defaults: { timeout: 60 } })
// @ts-expect-error there is no such strategy
void client.queues.configure('mail', { backpressure: { strategy: 'drop' } })

// ---- Connecting ----

void new Client({ url: 'http://127.0.0.1:8080', token: 'x' })
// @ts-expect-error neither an address nor a server
void new Client({ token: 'x' })

// ---- Workflows ----

const steps = chain([entry(mail, ['a']), group([entry(transcode, ['v1', '720p']), chain([entry(loose, [])])])])
expectTypeOf(client.workflows.create(steps, { workflowTimeout: '1m' })).resolves.toEqualTypeOf<WorkflowView>()
void client.workflows.create(batch([entry(mail, ['a'])], { onSuccess: entry(loose, []) }, { name: 'n' }))
void client.workflows.create(dag({ a: entry(mail, ['a']), b: { after: ['a'], run: steps } }))
// @ts-expect-error there is no such step to come after
void client.workflows.create(dag({ a: entry(mail, ['a']), b: { after: ['c'], run: steps } }))
// @ts-expect-error a number where a text belongs
void client.workflows.create(chain([entry(mail, [5])]))
// @ts-expect-error a callback is one job
void client.workflows.create(batch([entry(mail, ['a'])], { onSuccess: steps }))
// @ts-expect-error a bare job without its input
void client.workflows.create(chain([mail]))

// ---- Journeys ----

const order = schema<{ orderId: string }>({ type: 'object' })
const end = state.succeed()
const typed = journey('a', '1.0.0', {
  input: order,
  output: schema<{ price: number }>({ type: 'object' }),
  start: 'wait',
  states: {
    wait: state.wait({ input: order, timeout: '1m', onTimeout: 'pick', next: 'end' }),
    pick: state.choice([{ when: jsonata`true`, next: 'end' }], 'wait'),
    end,
  },
})
expectTypeOf(typed).toEqualTypeOf<JourneyDefinition<{ orderId: string }, { price: number }>>()
// @ts-expect-error there is no such state to begin with
journey('a', '1.0.0', { start: 'begin', states: { end } })
journey('a', '1.0.0', {
  start: 'nap',
  // @ts-expect-error there is no such state to go to
  states: { nap: state.timer({ duration: '1s', next: 'enb' }), end },
})
journey('a', '1.0.0', {
  start: 'pick',
  // @ts-expect-error nor by a choice
  states: { pick: state.choice([{ when: jsonata`true`, next: 'enb' }], 'end'), end },
})
journey('a', '1.0.0', {
  start: 'wait',
  // @ts-expect-error nor when the wait timed out
  states: { wait: state.wait({ input: order, timeout: '1m', onTimeout: 'enb', next: 'end' }), end },
})
// @ts-expect-error a branch knows only its own states
graph('nap', { nap: state.timer({ duration: '1s', next: 'end' }) })
// @ts-expect-error a timeout needs a place to go
state.wait({ input: order, timeout: '1m', next: 'end' })
// @ts-expect-error one of them, not both
state.timer({ duration: '1s', until: new Date(0), next: 'end' })
// @ts-expect-error a bare number has no unit
state.httpCall({ method: 'GET', url: 'https://a.example', timeout: 5, next: 'end' })
state.httpCall({ operationRef: 'users.getUser', params: { path: { id: '${context.id}' } }, next: 'end' })
// @ts-expect-error an address or an operation, not both
state.httpCall({ operationRef: 'users.getUser', method: 'GET', url: 'https://a.example', next: 'end' })
// @ts-expect-error a text is not an expression
state.choice([{ when: 'context.ok', next: 'end' }], 'end')

void client.journeys.start(typed, { orderId: 'a' }, { parent: { jobId: 'x' }, inheritDeadline: true })
void client.journeys.start('by-name')
void client.journeys.start(journeyRef('by-name'), { any: 1 })
// @ts-expect-error an input that does not fit
void client.journeys.start(typed, { orderId: 5 })
// @ts-expect-error it needs an input
void client.journeys.start(typed)
expectTypeOf(client.journeys.run(typed, { orderId: 'a' })).resolves.toEqualTypeOf<{ price: number }>()
expectTypeOf(client.apis.call(typed, { orderId: 'a' })).resolves.toEqualTypeOf<{ price: number }>()
// @ts-expect-error an input that does not fit
void client.apis.call(typed, {})
async function waits(): Promise<void> {
  const started = await client.journeys.start(typed, { orderId: 'a' })
  if (started.phase === 'SUCCEEDED') expectTypeOf(started.output.price).toBeNumber()
  const { output } = await client.journeys.result(started)
  expectTypeOf(output).toEqualTypeOf<{ price: number }>()
  expectTypeOf((await client.journeys.result('id')).output).toBeUnknown()
}
void waits
