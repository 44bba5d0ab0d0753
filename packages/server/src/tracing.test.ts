import { SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { eventData, journeyEnded, journeyStarted, type NewEvent } from '@curfew/core'
import { anEnd, anEndedRun, aRun, later, RUN_ID } from '../../core/src/journey/run/runs.suite.ts'
import { reportRun } from './engine/journeys/report.ts'
import { openTracing } from './tracing.ts'

const exporter = new InMemorySpanExporter()
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
afterAll(() => {
  trace.disable()
})
const lines: { level: string; fields: object; message: string }[] = []
beforeEach(() => {
  exporter.reset()
  lines.length = 0
})

const noting = (level: string) => (fields: object, message: string) => void lines.push({ level, fields, message })
const log = { info: noting('info'), warn: noting('warn'), error: noting('error') }

async function report(event: NewEvent): Promise<void> {
  reportRun({ type: event.type, at: event.at, data: eventData(event) }, log, await openTracing())
}

test('a run that ended is one span, from its start to its end', async () => {
  await report(journeyEnded(anEndedRun('Success', 1_500, { end: anEnd('Success', { output: { status: 'SHIPPED' } }) })))
  const [span, ...more] = exporter.getFinishedSpans()
  expect(more).toEqual([])
  expect(span).toMatchObject({
    name: 'order-screening run',
    status: { code: SpanStatusCode.OK },
    attributes: {
      'journey.id': RUN_ID,
      'journey.name': 'order-screening',
      'journey.version': '1.0.0',
      'journey.kind': 'Journey',
      'journey.phase': 'SUCCEEDED',
      'journey.status': 'SHIPPED',
    },
  })
  expect(span?.startTime).toEqual([later(0) / 1000, 0])
  expect(span?.endTime).toEqual([later(1_000) / 1000, 500_000_000])
})

test('a span of a run that failed has its code', async () => {
  await report(journeyEnded(anEndedRun('Timeout', 30_000)))
  expect(exporter.getFinishedSpans()[0]).toMatchObject({
    status: { code: SpanStatusCode.ERROR, message: 'ORDER_TIMEOUT' },
    attributes: { 'journey.error_code': 'ORDER_TIMEOUT', 'journey.termination_kind': 'Timeout' },
  })
})

test('a run that ended is one line in the log, without anything it worked on', async () => {
  const end = anEnd('Fail', { error: { code: 'ORDER_NOT_FOUND', reason: 'no order of jane@example.org' } })
  const run = anEndedRun('Fail', 1_500, {
    end,
    attributes: { subjectId: 'jane@example.org' },
    tags: ['jane@example.org'],
  })
  await report(journeyEnded(run))
  expect(lines).toEqual([
    {
      level: 'info',
      message: 'a run ended: Fail',
      fields: {
        journeyId: RUN_ID,
        journeyName: 'order-screening',
        journeyVersion: '1.0.0',
        kind: 'Journey',
        phase: 'FAILED',
        terminationKind: 'Fail',
        terminatedAtState: 'finish',
        errorCode: 'ORDER_NOT_FOUND',
        durationMs: 1_500,
        marginMs: 28_500,
        limitedBy: 'spec',
      },
    },
  ])
  expect(JSON.stringify([lines, exporter.getFinishedSpans()[0]?.attributes])).not.toContain('jane')
})

test('of a run that started nothing is said yet', async () => {
  await report(journeyStarted(aRun()))
  expect([lines, exporter.getFinishedSpans()]).toEqual([[], []])
})
