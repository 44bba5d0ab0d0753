import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { context, createTraceState, SpanKind, SpanStatusCode, trace, TraceFlags, type Tracer } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { Client } from './client/client.ts'
import { defineJob } from './job/define-job.ts'
import { CancelledError, DeadlineError, LostLeaseError, ShutdownError, SleepingError } from './errors.ts'
import { refused, ScriptedServer, world } from './scripted.suite.ts'
import { attemptTracing, enqueueTracing, type AttemptTracingOptions, type TracedAttempt } from './telemetry.ts'

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer = provider.getTracer('test')
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
afterAll(() => {
  context.disable()
  trace.disable()
})
beforeEach(() => {
  exporter.reset()
})

const spans = () => exporter.getFinishedSpans()
const mail = defineJob<[to: string]>('mail.send', { queue: 'mail' })

describe('an enqueue', () => {
  function open(line: ConstructorParameters<typeof ScriptedServer>[0], use: Tracer | null = tracer) {
    const { host, random } = world()
    const server = new ScriptedServer(line)
    const middleware = [enqueueTracing(use === null ? {} : { tracer: use })]
    return { server, client: new Client({ server, host, random, middleware }) }
  }

  test('is a producer span whose context travels in meta, beside what was there', async () => {
    const { server, client } = open([{ status: 201, body: { job: { state: 'available' } } }])
    await client.enqueue(mail, ['a'], { meta: { tenant: 't' } })
    const [span] = spans()
    const { traceId, spanId } = span?.spanContext() ?? {}
    expect(span).toMatchObject({ name: 'mail enqueue', kind: SpanKind.PRODUCER, status: { code: SpanStatusCode.OK } })
    expect(span?.attributes).toEqual({
      'messaging.system': 'ojs',
      'messaging.operation.type': 'publish',
      'messaging.destination.name': 'mail',
      'messaging.message.id': server.asked[0]?.body.id,
      'ojs.job.id': server.asked[0]?.body.id,
      'ojs.job.type': 'mail.send',
      'ojs.job.queue': 'mail',
      'ojs.job.state': 'available',
    })
    expect(server.asked[0]?.body.meta).toEqual({ tenant: 't', traceparent: `00-${traceId ?? ''}-${spanId ?? ''}-01` })
  })

  test('is a child of what the caller is doing, and hands its trace state on', async () => {
    const { server, client } = open([{ status: 201, body: { job: {} } }])
    const caller = {
      traceId: 'a'.repeat(32),
      spanId: 'b'.repeat(16),
      traceFlags: TraceFlags.SAMPLED,
      traceState: createTraceState('vendor=1'),
    }
    await context.with(trace.setSpanContext(context.active(), caller), () => client.enqueue(mail, ['a']))
    expect(spans()[0]).toMatchObject({ parentSpanContext: { spanId: 'b'.repeat(16) } })
    expect(server.asked[0]?.body.meta).toMatchObject({ tracestate: 'vendor=1' })
  })

  test('a context the caller gave stays', async () => {
    const { server, client } = open([{ status: 201, body: { job: {} } }])
    await client.enqueue(mail, ['a'], { meta: { traceparent: 'mine' } })
    expect(server.asked[0]?.body.meta).toEqual({ traceparent: 'mine' })
  })

  test('that is refused says why', async () => {
    const { client } = open([refused(422, 'validation_error')])
    await expect(client.enqueue(mail, ['a'])).rejects.toThrow()
    expect(spans()[0]).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { 'error.type': 'validation_error', 'error.message': 'validation_error' },
      events: [{ name: 'exception' }],
    })
  })

  test('without anybody who traces, nothing is added', async () => {
    const { server, client } = open([{ status: 201, body: { job: {} } }], trace.getTracer('unknown'))
    await client.enqueue(mail, ['a'])
    expect(server.asked[0]?.body).not.toHaveProperty('meta')
  })

  test('the tracer that is registered later is found', async () => {
    const { client } = open(() => ({ status: 201, body: { job: {} } }), null)
    await client.enqueue(mail, ['a'])
    expect(spans()).toHaveLength(0)
    trace.setGlobalTracerProvider(provider)
    await client.enqueue(mail, ['a'])
    expect(spans()).toHaveLength(1)
    trace.disable()
  })
})

describe('an attempt', () => {
  const origin = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'vendor=1' }
  const host = new FakeClock()

  function attempt(meta: Record<string, unknown> = origin, more: Partial<TracedAttempt> = {}): TracedAttempt {
    const signal = new AbortController().signal
    return { jobId: 'j', type: 'mail.send', queue: 'mail', attempt: 2, meta, signal, remaining: () => 1_500, ...more }
  }

  const run = (ctx: TracedAttempt, work: () => Promise<unknown>, options: AttemptTracingOptions = {}) =>
    attemptTracing({ tracer, host, ...options })(ctx, work)

  test('that falls asleep has not failed', async () => {
    const sleeping = new SleepingError('rest', new Date(0))
    await expect(run(attempt(), () => Promise.reject(sleeping))).rejects.toBe(sleeping)
    expect(spans()[0]).toMatchObject({
      status: { code: SpanStatusCode.OK },
      attributes: { 'ojs.job.outcome': 'sleeping' },
      events: [],
    })
  })

  test('is a consumer span with its deadline, linked to the enqueue', async () => {
    expect(await run(attempt(), async () => 'done')).toBe('done')
    const [span] = spans()
    expect(span).toMatchObject({ name: 'mail process', kind: SpanKind.CONSUMER, status: { code: SpanStatusCode.OK } })
    expect(span?.parentSpanContext).toBeUndefined()
    expect(span?.links).toMatchObject([
      { context: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), isRemote: true } },
    ])
    expect(span?.links[0]?.context.traceState?.serialize()).toBe('vendor=1')
    expect(span?.attributes).toEqual({
      'messaging.system': 'ojs',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'mail',
      'messaging.message.id': 'j',
      'ojs.job.id': 'j',
      'ojs.job.type': 'mail.send',
      'ojs.job.queue': 'mail',
      'ojs.job.attempt': 2,
      'curfew.deadline': '2026-01-01T12:00:01.500Z',
      'curfew.remaining_ms': 1_500,
      'ojs.job.outcome': 'completed',
    })
  })

  test('may be a child of the enqueue instead', async () => {
    await run(attempt(), async () => 'done', { parent: true })
    expect(spans()[0]).toMatchObject({ parentSpanContext: { spanId: 'b'.repeat(16) }, links: [] })
    expect(spans()[0]?.spanContext().traceId).toBe('a'.repeat(32))
  })

  test('is the span that what it does belongs to', async () => {
    await run(attempt(), async () => {
      tracer.startSpan('inner').end()
    })
    const [inner, outer] = spans()
    expect(inner?.parentSpanContext?.spanId).toBe(outer?.spanContext().spanId)
  })

  test.each([{}, { traceparent: 'nonsense' }, { traceparent: `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01` }])(
    'of a job with meta %j stands alone',
    async (meta) => {
      await run(attempt(meta), async () => 1)
      await run(attempt(meta), async () => 1, { parent: true })
      expect(spans()).toHaveLength(2)
      for (const span of spans()) expect([span.links, span.parentSpanContext]).toEqual([[], undefined])
    },
  )

  test('without a deadline names none', async () => {
    await run(attempt(origin, { remaining: () => Infinity }), async () => 1)
    expect(spans()[0]?.attributes).not.toHaveProperty('curfew.deadline')
  })

  test('that fails tells its error, and throws it on', async () => {
    const boom = new TypeError('boom')
    await expect(run(attempt(), () => Promise.reject(boom))).rejects.toBe(boom)
    expect(spans()[0]).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: 'boom' },
      attributes: { 'ojs.job.outcome': 'failed', 'error.type': 'TypeError', 'ojs.job.error.attempt': 2 },
      events: [{ name: 'exception' }],
    })
  })

  test.each([
    [new DeadlineError('execution', 1_500, 'publish'), 'timeout', 'deadline'],
    [new CancelledError(), 'cancelled', 'cancelled'],
    [new ShutdownError(), 'interrupted', 'shutdown'],
    [new LostLeaseError(), 'lost', 'lost_lease'],
  ])('that was told to stop ends by that, whatever it throws (%s)', async (reason, outcome, code) => {
    const stop = new AbortController()
    const ended = run(attempt(origin, { signal: stop.signal }), async () => {
      stop.abort(reason)
      throw new Error('fetch was aborted')
    })
    await expect(ended).rejects.toThrow('fetch was aborted')
    expect(spans()[0]).toMatchObject({
      attributes: { 'ojs.job.outcome': outcome, 'error.type': code },
      events: [{ name: 'stop', attributes: { reason: code } }, { name: 'exception' }],
    })
  })

  test('that finishes in its grace is complete', async () => {
    const stop = new AbortController()
    await run(attempt(origin, { signal: stop.signal }), async () => {
      stop.abort(new DeadlineError('execution', 1_500, 'publish'))
      return 'saved'
    })
    expect(spans()[0]).toMatchObject({ attributes: { 'ojs.job.outcome': 'completed' }, events: [{ name: 'stop' }] })
  })
})
