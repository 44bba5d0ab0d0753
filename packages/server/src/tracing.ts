/**
 * Spans by OpenTelemetry, where it is installed. `@opentelemetry/api` is an optional peer: where it is not installed,
 * nothing is traced; where it is, spans go to the provider that the host application, or a file given to `node --import`,
 * has registered, and nowhere if none was.
 */
import type { Trace } from './engine/journeys/report.ts'

export const tracesNothing: Trace = () => {}

export async function openTracing(): Promise<Trace> {
  const api = await import('@opentelemetry/api').catch(() => null)
  if (api === null) return tracesNothing
  const { SpanKind, SpanStatusCode, ROOT_CONTEXT, trace } = api
  return ({ name, startedAt, endedAt, attributes, errorCode }) => {
    const tracer = trace.getTracer('curfew')
    const options = { kind: SpanKind.INTERNAL, startTime: new Date(startedAt), attributes }
    // A run belongs to no request: it may outlive the one that started it by days.
    const span = tracer.startSpan(name, options, ROOT_CONTEXT)
    if (errorCode === null) span.setStatus({ code: SpanStatusCode.OK })
    else span.setStatus({ code: SpanStatusCode.ERROR, message: errorCode })
    span.end(new Date(endedAt))
  }
}
