import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { eventData, journeyEnded, journeyStarted, type NewEvent } from '@curfew/core'
import { anEnd, anEndedRun, aRun, aVisit } from '../../../../core/src/journey/run/runs.suite.ts'
import { JourneyMeters } from './journey-meters.ts'

async function counted(...events: NewEvent[]): Promise<string> {
  const registry = new Registry()
  const meters = new JourneyMeters(registry)
  for (const event of events) meters.count({ type: event.type, data: eventData(event) })
  return registry.metrics()
}

test('counts each run once when it starts and once when it ends', async () => {
  const text = await counted(journeyStarted(aRun()), journeyEnded(anEndedRun('Success', 1_500)))
  const labels = 'journey_name="order-screening",journey_version="1.0.0",kind="Journey"'
  expect(text).toContain(`journey_runs_started_total{${labels}} 1`)
  expect(text).toContain(`journey_runs_completed_total{${labels},phase="SUCCEEDED"} 1`)
  expect(text).toContain(`journey_run_duration_seconds_sum{${labels},phase="SUCCEEDED"} 1.5`)
  expect(text).toContain('journey_deadline_margin_seconds_sum{journey_name="order-screening",kind="Journey"} 28.5')
})

test('tells who set the deadline that ended a run, and where it was', async () => {
  const end = anEnd('Timeout', { terminatedAtState: 'checks' })
  const trail = [aVisit('checks', 'parallel', 10, null)]
  const text = await counted(journeyEnded(anEndedRun('Timeout', 30_000, { end, trail, limitedBy: 'platform-cap' })))
  const labels = 'journey_name="order-screening",kind="Journey",limited_by="platform-cap",at_state_type="parallel"'
  expect(text).toContain(`journey_run_timeouts_total{${labels}} 1`)
  expect(text).not.toContain('journey_deadline_margin_seconds_sum')
})

test.each(['Fail', 'Cancel', 'RuntimeError'] as const)(
  'an end by %s does not count as a timeout and leaves no margin',
  async (kind) => {
    const text = await counted(journeyEnded(anEndedRun(kind, 1_000)))
    expect(text).toContain('phase="FAILED"} 1')
    expect(text).not.toMatch(/journey_run_timeouts_total\{|margin_seconds_sum/)
  },
)
