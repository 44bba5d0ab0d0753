import { describe, expect, test } from 'vitest'
import { explainRun, millis, type Instant, type Run } from '@curfew/core'
import { anEnd, anEndedRun, aRun, aVisit, later } from '../../../../core/src/journey/run/runs.suite.ts'
import { journeyPage, noJourneyPage } from './journey-page.ts'
import { pageAnswer } from './page.ts'

const pageOf = (run: Run, now: Instant = later(0)): string => journeyPage(run, explainRun(run, now))
const HOSTILE = `</style><script>alert("x")</script><img src=x onerror='y'>`

describe('the page of a run', () => {
  test('draws states and deadline on the axis of the budget', () => {
    const trail = [aVisit('load', 'task', 0, 15_000), aVisit('approve', 'wait', 15_000, null)]
    const end = anEnd('Timeout', { terminatedAtState: 'approve' })
    const page = pageOf(anEndedRun('Timeout', 30_000, { trail, end }))
    // The axis is 30.9 s long: half of the budget is at 485 of 1000.
    expect(page).toContain('<rect class="span work" x="0" width="485.4"')
    expect(page).toContain('<rect class="span waiting" x="485.4" width="485.4"')
    expect(page).toContain('<line class="deadline" x1="970.9"')
  })

  test('names the ending', () => {
    const end = anEnd('Timeout', { terminatedAtState: 'checks/risk/score' })
    const page = pageOf(anEndedRun('Timeout', 30_004, { end, overshootMs: millis(4) }))
    expect(page).toContain('timed out')
    expect(page).toContain('Its time was up in <code>checks/risk/score</code>, decided 4 ms after the deadline.')
    expect(page).toContain('<strong>ORDER_TIMEOUT</strong> screening took longer than 30 s')
  })

  test('draws a state as long as the run let it be, and names the limit that this cut', () => {
    const trail = [
      aVisit('load', 'task', 0, 10_000, { limitMs: millis(10_000) }),
      aVisit('call', 'task', 10_000, null, { limitMs: millis(86_400_000) }),
    ]
    const page = pageOf(anEndedRun('Timeout', 30_000, { trail, end: anEnd('Timeout') }))
    expect(page).toContain('10 s<small>of 10 s</small>')
    expect(page).toContain('20 s<small>of 20 s</small>')
    expect(page.match(/shortened from [\w ]+/g)).toEqual(['shortened from 1 d by the deadline of the run'])
    // It ends at the deadline, not at the end of the axis.
    expect(page).toContain('<rect class="limit" x="323.6" width="647.2"')
  })

  test('asks for itself again while the run goes on, and not afterwards', () => {
    expect(pageOf(aRun())).toContain('http-equiv="refresh"')
    expect(pageOf(anEndedRun('Success', 1_000))).not.toContain('refresh')
  })

  test('a run that has spent little of its budget has an axis of its own', () => {
    const trail = [aVisit('load', 'task', 0, 1_000)]
    const page = pageOf(anEndedRun('Success', 1_000, { trail, limitMs: millis(86_400_000) }))
    expect(page).toContain('Shown are the first 1.05 s of 1 d.')
    expect(page).toContain('<rect class="span work" x="0" width="952.4"')
    expect(page).not.toContain('<line class="deadline"')
  })

  test('shows nothing that came from outside as anything but text', () => {
    const end = anEnd('Fail', { error: { code: HOSTILE, reason: HOSTILE }, terminatedAtState: HOSTILE })
    const trail = [aVisit(HOSTILE, HOSTILE, 0, 1, { note: HOSTILE })]
    const page = pageOf(anEndedRun('Fail', 1_000, { end, trail, id: HOSTILE, name: HOSTILE, version: HOSTILE }))
    expect(page).not.toMatch(/<script|<img|onerror='/)
    expect(noJourneyPage(HOSTILE)).not.toMatch(/<script|<img/)
  })

  test('needs no script, and loads nothing', () => {
    const page = pageOf(aRun())
    expect(page).not.toMatch(/<script|https?:\/\/|url\(/)
    // A style attribute would be refused by the policy.
    expect(page).not.toContain(' style=')
    const { headers = {}, media } = pageAnswer(page)
    expect(media).toBe('text/html; charset=utf-8')
    expect(headers['Content-Security-Policy']).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]+';/)
  })

  test('a run that has only just started can be drawn', () => {
    expect(pageOf(aRun({ trail: [aVisit('load', 'task', 0, null)] }))).not.toMatch(/NaN|Infinity/)
  })
})
