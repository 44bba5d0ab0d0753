/**
 * One job's time as a picture without pixels: lanes with spans and marks on the clock of the server. Board and terminal
 * draw this model; neither works out a deadline of its own. It is a function of `now`, so a page can let it run, or replay
 * it.
 *
 * Lanes: the whole life; the last attempts and the one that is foreseen; durable steps, in as many lanes as ran side by side;
 * signs of life; the reservation, when that is the clock which ends next. In a lane, spans come in their order and do not
 * overlap; every mark lies inside its lane.
 *
 * What is past is taken from the recorded life, what is to come from `clocksOf` and `foresee`, on the assumption that
 * workers fetch and live. A limit that lies far beyond everything else becomes a flag at the edge (`edges`) and does not
 * stretch the axis; long empty waits are folded (`folds.ts`).
 */
import { instant, type Instant } from '../../time/clock.ts'
import { readLife } from '../../wire/job/life.ts'
import { isTerminal } from '../job.ts'
import { axisEnd, startOf, withinAxis } from './axis.ts'
import { clocksOf } from './clocks.ts'
import { foldsOf } from './folds.ts'
import { foresee } from './foresee.ts'
import { foreseenAttempts } from './foreseen-attempts.ts'
import { attemptLane, attemptsOf, comingLane, lifeLane, reservationLane, signsLane } from './lanes.ts'
import { failuresOf, type Past } from './marks.ts'
import { lifeSpans } from './spans.ts'
import { stepLanes } from './step-lanes.ts'
import type { Band, Timeline, TimelineInput } from './timeline-model.ts'
import { headlineOf, sentenceOf } from './timeline-words.ts'

const SHOWN_ATTEMPTS = 5

export function timeline(input: TimelineInput, now: Instant): Timeline {
  const { job, life, isHeld } = input
  const clocks = clocksOf(job, life, now)
  const next = foresee(job, life, now)
  const coming = foreseenAttempts(job, life, now, isHeld)
  const past: Past = { entries: readLife(job), spans: lifeSpans(job, now), failures: failuresOf(job) }
  const attempts = attemptsOf(past)
  const drawn = [
    lifeLane(input, past, clocks, coming, now),
    ...attempts.slice(-SHOWN_ATTEMPTS).map((attempt) => attemptLane(input, past, attempt, clocks, now)),
    ...coming.attempts.slice(0, 1).map(comingLane),
    ...stepLanes(input.steps ?? [], now),
    ...signsLane(input, clocks, now),
    ...reservationLane(clocks, now),
  ]
  const from = instant(Math.min(now, ...drawn.map((lane) => startOf(lane))))
  const to = axisEnd(drawn, clocks, from, isTerminal(job.state) ? from : now)
  const lanes = drawn.map((lane) => withinAxis(lane, to)).filter((lane) => lane !== null)
  return {
    jobId: job.id,
    now,
    from,
    to,
    lanes,
    bands: bandsOf(input, from, instant(Math.min(to, now))),
    folds: foldsOf(lanes, from, to),
    clocks,
    next,
    headline: headlineOf(job),
    sentence: sentenceOf(job, next, clocks, now),
    hiddenAttempts: Math.max(0, attempts.length - SHOWN_ATTEMPTS),
  }
}

function bandsOf({ job, life, queue }: TimelineInput, from: Instant, now: Instant): Band[] {
  const bands: Band[] = life.outages
    .filter((outage) => outage.to > from && outage.from < now)
    .map((outage) => ({
      kind: 'away',
      from: instant(Math.max(from, outage.from)),
      to: instant(Math.min(now, outage.to)),
    }))
  const pausedAt = queue?.pausedAt ?? null
  if (pausedAt !== null && !isTerminal(job.state) && job.hold === null)
    bands.push({ kind: 'paused', from: instant(Math.max(from, pausedAt)), to: now })
  return bands.filter((band) => band.to > band.from)
}
