/**
 * Traces by OpenTelemetry: a span where a job is enqueued, a span for each attempt, and the thread between them in the
 * job's `meta`, as W3C trace context. Names and attributes follow the Open Job Spec (observability §5–7), which links
 * the attempt to the enqueue instead of making it a child: the two may lie days apart. `parent: true` makes it a child.
 *
 * Published as `@curfew/sdk/telemetry`; only who imports it needs `@opentelemetry/api`.
 */
import {
  context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api'
import type { Host } from '@curfew/core'
import { CurfewError } from './errors.ts'
import { nodeHost } from './host.ts'
import { onAbort } from './waiting.ts'
import type { EnqueueMiddleware } from './client/middleware.ts'

export interface TracingOptions {
  /** The globally registered one unless set. */
  readonly tracer?: Tracer
}

export interface AttemptTracingOptions extends TracingOptions {
  /** Makes the attempt a child of the enqueue instead of linking it. */
  readonly parent?: boolean
  readonly host?: Host
}

/** What tracing needs to know of an attempt. */
export interface TracedAttempt {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  readonly attempt: number
  readonly meta: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
  /** Milliseconds to the nearest deadline. */
  remaining(): number
}

export type AttemptMiddleware = (ctx: TracedAttempt, next: () => Promise<unknown>) => Promise<unknown>

/** For `client.use`: a producer span around each enqueue, its context in the job's `meta`. */
export function enqueueTracing({ tracer }: TracingOptions = {}): EnqueueMiddleware {
  return (request, next) => {
    const { job, options } = request
    const queue = options.queue ?? job.options.queue ?? 'default'
    const attributes = attributesOf('publish', { jobId: options.id, type: job.type, queue })
    const span = (tracer ?? globalTracer()).startSpan(`${queue} enqueue`, { kind: SpanKind.PRODUCER, attributes })
    const meta = { ...traceContextOf(span.spanContext()), ...options.meta }
    const traced = Object.keys(meta).length === 0 ? request : { ...request, options: { ...options, meta } }
    return context.with(trace.setSpan(context.active(), span), async () => {
      try {
        const view = await next(traced)
        span.setAttributes({ 'ojs.job.state': view.state })
        span.setStatus({ code: SpanStatusCode.OK })
        return view
      } catch (error) {
        recordError(span, error)
        throw error
      } finally {
        span.end()
      }
    })
  }
}

/** For `worker.use`: a consumer span around each attempt, with its deadline and what became of it. */
export function attemptTracing({
  tracer,
  parent = false,
  host = nodeHost,
}: AttemptTracingOptions = {}): AttemptMiddleware {
  return (ctx, next) => {
    const origin = spanContextFrom(ctx.meta)
    const around = parent && origin !== null ? trace.setSpanContext(ROOT_CONTEXT, origin) : context.active()
    const span = (tracer ?? globalTracer()).startSpan(
      `${ctx.queue} process`,
      {
        kind: SpanKind.CONSUMER,
        attributes: { ...attributesOf('process', ctx), 'ojs.job.attempt': ctx.attempt, ...deadlineOf(ctx, host) },
        ...(parent || origin === null ? {} : { links: [{ context: origin }] }),
      },
      around,
    )
    const unhook = onAbort([ctx.signal], () => {
      span.addEvent('stop', { reason: codeOf(ctx.signal.reason) })
    })
    return context.with(trace.setSpan(around, span), async () => {
      try {
        const result = await next()
        span.setAttribute('ojs.job.outcome', 'completed')
        span.setStatus({ code: SpanStatusCode.OK })
        return result
      } catch (error) {
        // Whatever it throws once it was told to stop: being told is why it ended.
        const cause: unknown = ctx.signal.aborted ? ctx.signal.reason : error
        if (codeOf(cause) === 'sleeping') {
          span.setAttribute('ojs.job.outcome', 'sleeping')
          span.setStatus({ code: SpanStatusCode.OK })
          throw error
        }
        span.setAttributes({
          'ojs.job.outcome': OUTCOMES[codeOf(cause)] ?? 'failed',
          'ojs.job.error.attempt': ctx.attempt,
        })
        recordError(span, cause)
        throw error
      } finally {
        unhook()
        span.end()
      }
    })
  }
}

const OUTCOMES: Readonly<Record<string, string>> = {
  deadline: 'timeout',
  cancelled: 'cancelled',
  shutdown: 'interrupted',
  lost_lease: 'lost',
}

function globalTracer(): Tracer {
  return trace.getTracer('@curfew/sdk')
}

function attributesOf(
  operation: 'publish' | 'process',
  { jobId, type, queue }: { jobId: string; type: string; queue: string },
): Attributes {
  return {
    'messaging.system': 'ojs',
    'messaging.operation.type': operation,
    'messaging.destination.name': queue,
    'messaging.message.id': jobId,
    'ojs.job.id': jobId,
    'ojs.job.type': type,
    'ojs.job.queue': queue,
  }
}

/** The soft deadline as this machine's clock has it, and how much time there is at the start. */
function deadlineOf(ctx: TracedAttempt, host: Host): Attributes {
  const remainingMs = ctx.remaining()
  if (!Number.isFinite(remainingMs)) return {}
  return {
    'curfew.deadline': new Date(host.wallMs() + remainingMs).toISOString(),
    'curfew.remaining_ms': Math.round(remainingMs),
  }
}

function recordError(span: Span, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  span.setAttributes({ 'error.type': codeOf(error), 'error.message': message })
  span.recordException(error instanceof Error ? error : message)
  span.setStatus({ code: SpanStatusCode.ERROR, message })
}

function codeOf(error: unknown): string {
  if (error instanceof CurfewError) return error.code
  return error instanceof Error ? error.name : typeof error
}

// ---- W3C trace context, level 1 ----

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

function traceContextOf(span: SpanContext): Record<string, string> {
  if (!isSpanContextValid(span)) return {}
  const traceparent = `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`
  const tracestate = span.traceState?.serialize() ?? ''
  return tracestate === '' ? { traceparent } : { traceparent, tracestate }
}

function spanContextFrom({ traceparent, tracestate }: Readonly<Record<string, unknown>>): SpanContext | null {
  const [, traceId, spanId, flags] = typeof traceparent === 'string' ? (TRACEPARENT.exec(traceparent) ?? []) : []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  const found: SpanContext = {
    traceId,
    spanId,
    traceFlags: parseInt(flags, 16),
    isRemote: true,
    ...(typeof tracestate === 'string' ? { traceState: createTraceState(tracestate) } : {}),
  }
  return isSpanContextValid(found) ? found : null
}
