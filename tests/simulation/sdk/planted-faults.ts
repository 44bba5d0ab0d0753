/**
 * Faults that the simulation must find. Each wraps a real session: it changes what the session hears, or what is done of
 * what it wants. Production code stays as it is.
 */
import { instant, millis, STEPS_MEMBER, type Instant, type StepOnWire } from '@curfew/core'
import type { Call, CallAnswer, Effect, Input, Orders } from '../../../packages/sdk/src/worker/inputs.ts'
import type { Report } from '../../../packages/sdk/src/attempt/report.ts'
import { Session } from '../../../packages/sdk/src/worker/session.ts'
import type { MakeSession, SessionLike } from '../../../packages/sdk/src/worker/worker.ts'
import type { HandedJob } from '../../../packages/sdk/src/wire/jobs.ts'

type Step = (input: Input, now: Instant) => readonly Effect[]

/** A session with another `step`. */
function planted(change: (session: Session) => Step): MakeSession {
  return (...args) => {
    const session = new Session(...args)
    const step = change(session)
    const changed: SessionLike = {
      step,
      get state() {
        return session.state
      },
      get active() {
        return session.active
      },
      get running() {
        return session.running
      },
      get fenceAt() {
        return session.fenceAt
      },
      get wantsTurn() {
        return session.wantsTurn
      },
      get isLeaving() {
        return session.isLeaving
      },
    }
    return changed
  }
}

/** Only what it hears is changed. */
const mishears = (change: (input: Input) => Input): MakeSession =>
  planted((session) => (input, now) => session.step(change(input), now))

/** Only what it wants is changed. */
const misdoes = (change: (effect: Effect) => readonly Effect[]): MakeSession =>
  planted((session) => (input, now) => session.step(input, now).flatMap(change))

const withReports = (effect: Effect, change: (report: Report) => Report): Effect =>
  effect.do === 'call' ? { ...effect, call: { ...effect.call, reports: effect.call.reports.map(change) } } : effect

const withAnswer = (input: Input, change: (answer: CallAnswer) => Partial<CallAnswer>): Input =>
  input.in === 'answered' ? { ...input, answer: { ...input.answer, ...change(input.answer) } } : input

function withOrders(input: Input, change: (orders: Orders) => Orders): Input {
  if (input.in === 'beat') return { ...input, orders: change(input.orders) }
  return withAnswer(input, ({ orders }) => (orders === null ? {} : { orders: change(orders) }))
}

const isHandBack = (report: Report): boolean => report.kind === 'nack' && report.requeue

/** Attempts are known by their job alone: every lease is taken for the first, and reports speak for the newest. */
const keyedByJob = planted((session) => {
  const newest = new Map<string, HandedJob>()
  const asFirst = (job: HandedJob): HandedJob => {
    newest.set(job.id, job)
    return { ...job, x_lease: 1 }
  }
  const current = (jobId: string): number => newest.get(jobId)?.x_lease ?? 1
  const restored = (effect: Effect): Effect => {
    if (effect.do === 'start') return { ...effect, job: newest.get(effect.job.id) ?? effect.job }
    if (effect.do === 'watch')
      return { ...effect, watched: { ...effect.watched, lease: current(effect.watched.jobId) } }
    return withReports(effect, (report) => {
      const { jobId } = report.hold
      const attempt = newest.get(jobId)?.attempt ?? report.hold.attempt
      return { ...report, hold: { ...report.hold, attempt, lease: current(jobId) } }
    })
  }
  const ordersFor = (orders: Orders): Orders => ({
    ...orders,
    stops: orders.stops.map((stop) => ({ ...stop, x_lease: 1 })),
  })
  return (input, now) =>
    session
      .step(
        withOrders(
          withAnswer(input, ({ jobs }) => ({ jobs: jobs.map(asFirst) })),
          ordersFor,
        ),
        now,
      )
      .map(restored)
})

/** The server never learns that the worker is quiet: its calls and beats go on saying `running`, and ask for jobs. */
const asksOnWhileQuiet = planted(
  (session) => (input, now) =>
    session.step(input, now).flatMap((effect): Effect[] => {
      if (session.state !== 'quiet') return [effect]
      if (effect.do === 'tell-guard') return [{ ...effect, state: 'running' }]
      if (effect.do !== 'call' || effect.call.listen === null) return [effect]
      return [{ ...effect, call: { ...effect.call, count: 1, listen: { ...effect.call.listen, state: 'running' } } }]
    }),
)

/** What arrives while the worker is quiet is started all the same. */
const startsWhileQuiet = planted((session) => (input, now) => {
  if (session.state !== 'quiet' || input.in !== 'answered' || input.answer.jobs.length === 0)
    return session.step(input, now)
  const keep = (effects: readonly Effect[]): Effect[] => effects.filter((effect) => effect.do !== 'tell-guard')
  const before = keep(session.step({ in: 'resume' }, now))
  const taken = session.step(input, now)
  return [...before, ...taken, ...keep(session.step({ in: 'quiet' }, now))]
})

/** Beats go on until the worker has ended. */
const beatsAfterLeaving = planted((session) => (input, now) => {
  const effects = session.step(input, now)
  if (!effects.some((effect) => effect.do === 'silence')) return effects
  return [...effects.filter((effect) => effect.do !== 'silence'), ...session.step({ in: 'silenced' }, now)]
})

/** A call that asks for jobs counts as over as soon as the worker is not running. */
const handsBackBesideAsking = planted((session) => {
  const asking = new Map<number, Call>()
  const seen = (effects: readonly Effect[]): readonly Effect[] => {
    for (const effect of effects)
      if (effect.do === 'call' && effect.call.count > 0) asking.set(effect.call.id, effect.call)
    return effects
  }
  return (input, now) => {
    const effects = [...seen(session.step(input, now))]
    if (input.in === 'answered' || input.in === 'failed') asking.delete(input.call)
    if (session.state === 'running') return effects
    for (const [id, call] of asking) {
      asking.delete(id)
      if (call.reports.length > 0) continue
      effects.push(...seen(session.step({ in: 'failed', call: id, reason: 'planted', refusal: null }, now)))
    }
    return effects
  }
})

/** A newer lease of a job is started at once, beside the older one. */
const startsBesideOlder = planted((session) => {
  const jobs = new Map<string, HandedJob>()
  return (input, now) => {
    if (input.in === 'answered') for (const job of input.answer.jobs) jobs.set(`${job.id}#${String(job.x_lease)}`, job)
    const effects = session.step(input, now)
    const started = new Set(effects.flatMap((effect) => (effect.do === 'start' ? [effect.key] : [])))
    return effects.flatMap((effect): Effect[] => {
      if (effect.do !== 'watch' || started.has(effect.watched.key)) return [effect]
      const job = jobs.get(effect.watched.key)
      const other = effects.find((each) => each.do === 'start')
      const terms = other?.do === 'start' ? other.terms : termsFor(effect.watched.hardAt, now)
      return job === undefined ? [effect] : [effect, { do: 'start', key: effect.watched.key, job, terms }]
    })
  }
})

function termsFor(hardAt: number, now: Instant): (Effect & { do: 'start' })['terms'] {
  const softStop = { why: 'deadline', kind: 'execution', limitMs: 0, source: 'default' } as const
  const end = hardAt as Instant
  const none = { stallMs: null, visibilityMs: null }
  return { startedAt: now, softAt: end, hardAt: end, killAt: end, graceMs: millis(0), softStop, ...none }
}

/** A stop waits for no handler: what runs is handed back, although it may go on. */
const stopsWithoutWaiting = planted((session) => (input, now) => {
  const effects = [...session.step(input, now)]
  for (const effect of [...effects]) {
    if (effect.do !== 'abort' || effect.stop.why !== 'shutdown') continue
    const ending = { kind: 'threw', error: { name: 'Error', message: 'planted' } } as const
    effects.push(...session.step({ in: 'settled', key: effect.key, ending }, now))
  }
  return effects
})

/** An order to stop a lease stops whatever attempt of the job is held. */
const obeysByJob = planted(
  (session) => (input, now) =>
    session.step(
      withOrders(input, (orders) => ({
        ...orders,
        stops: orders.stops.flatMap((stop) => [
          stop,
          ...session.leases
            .filter(({ jobId, lease }) => jobId === stop.job_id && lease !== stop.x_lease)
            .map(({ lease }) => ({ ...stop, x_lease: lease })),
        ]),
      })),
      now,
    ),
)

/** An answer to what the worker said before it changed its state counts as one to its newest word. */
const obeysOldAnswers = planted((session) => {
  let epoch = 0
  return (input, now) => {
    const effects = session.step(input.in === 'beat' ? { ...input, epoch } : input, now)
    for (const effect of effects) if (effect.do === 'tell-guard') epoch = effect.epoch
    return effects
  }
})

/** A call that failed is taken for one that arrived. */
const dropsReports = planted((session) => {
  const calls = new Map<number, Call>()
  return (input, now) => {
    const call = input.in === 'failed' ? calls.get(input.call) : undefined
    const heard: Input =
      call === undefined || call.reports.length === 0
        ? input
        : {
            in: 'answered',
            call: call.id,
            answer: {
              deliveries: call.reports.map(() => ({ kind: 'done' })),
              jobs: [],
              asked: { at: now, waitedMs: millis(0) },
              orders: null,
              failure: null,
            },
          }
    const effects = session.step(heard, now)
    for (const effect of effects) if (effect.do === 'call') calls.set(effect.call.id, effect.call)
    return effects
  }
})

/** Beats list a job only once it has begun. */
const listsOnlyBegun = planted((session) => {
  const unlisted = new Map<string, Effect>()
  return (input, now) => {
    const effects = session.step(input, now)
    const started = new Set(effects.flatMap((effect) => (effect.do === 'start' ? [effect.key] : [])))
    return effects.flatMap((effect): Effect[] => {
      if (effect.do === 'unwatch') unlisted.delete(effect.key)
      if (effect.do === 'watch' && !started.has(effect.watched.key)) {
        unlisted.set(effect.watched.key, effect)
        return []
      }
      const watch = effect.do === 'start' ? unlisted.get(effect.key) : undefined
      if (watch === undefined || effect.do !== 'start') return [effect]
      unlisted.delete(effect.key)
      return [watch, effect]
    })
  }
})

/** Reports that say this are never sent. */
const withholds = (what: RegExp): MakeSession =>
  misdoes((effect) => {
    if (effect.do !== 'call') return [effect]
    const reports = effect.call.reports.filter((report) => report.kind === 'ack' || !what.test(report.error.message))
    return [{ ...effect, call: { ...effect.call, reports } }]
  })

/** A job whose time in the buffer is over begins all the same. */
const beginsLate = planted((session) => {
  const jobs = new Map<string, HandedJob>()
  return (input, now) => {
    if (input.in === 'answered') for (const job of input.answer.jobs) jobs.set(`${job.id}#${String(job.x_lease)}`, job)
    return session.step(input, now).flatMap((effect): Effect[] => {
      if (effect.do !== 'call') return [effect]
      const late = effect.call.reports.filter((report) => report.kind === 'nack' && TOO_LONG.test(report.error.message))
      const starts = late.flatMap(({ hold: { jobId, lease } }): Effect[] => {
        const key = `${jobId}#${String(lease)}`
        const job = jobs.get(key)
        jobs.delete(key)
        return job === undefined ? [] : [{ do: 'start', key, job, terms: termsFor(now + 60_000, now) }]
      })
      return [...starts, effect]
    })
  }
})

const TOO_LONG = /^No slot of the worker was free/

/** An order to cancel is obeyed only by handlers that run. */
const cancelsOnlyBegun = planted(
  (session) => (input, now) =>
    session.step(
      withOrders(input, (orders) => ({
        ...orders,
        stops: orders.stops.filter(({ job_id: jobId, x_lease: lease }) =>
          session.running.includes(`${jobId}#${String(lease)}`),
        ),
      })),
      now,
    ),
)

const NO_ORDERS = { orders: { stops: [], isForgotten: false }, unlisted: [] }

/** A heartbeat that failed counts as one that was answered: handlers run on while others get their jobs. */
const trustsSilence = planted(
  (session) => (input, now) =>
    session.step(
      input.in === 'beat-failed' ? { in: 'beat', sentAt: now, epoch: -1, begun: Infinity, ...NO_ORDERS } : input,
      now,
    ),
)

/** The checkpoints that jobs are handed out with are changed. */
const withSteps = (input: Input, change: (steps: readonly StepOnWire[]) => readonly StepOnWire[]): Input =>
  withAnswer(input, ({ jobs }) => ({
    jobs: jobs.map((job) => {
      const saved = job.last_checkpoint as { readonly [STEPS_MEMBER]?: readonly StepOnWire[] } | undefined
      const steps = saved?.[STEPS_MEMBER]
      return steps === undefined ? job : { ...job, last_checkpoint: { ...saved, [STEPS_MEMBER]: change(steps) } }
    }),
  }))

/** Hand-backs until later are changed. */
const withSleeps = (effect: Effect, change: (report: Report & { kind: 'nack' }) => Report): Effect =>
  withReports(effect, (report) => (report.kind === 'nack' && report.notBefore !== undefined ? change(report) : report))

const unslept = ({ notBefore: _, ...report }: Report & { kind: 'nack' }): Report => report

/** A job that sleeps is handed out again at once, and its sleep counts as over. */
const sleepsNot = planted(
  (session) => (input, now) =>
    session
      .step(
        withSteps(input, (steps) => steps.map((step) => ({ ...step, to: step.from }))),
        now,
      )
      .map((effect) => withSleeps(effect, unslept)),
)

/** A handler learns neither from its limits nor from its signal that its time is over. */
const knowsNoEnd = misdoes((effect) => {
  if (effect.do === 'start') return [{ ...effect, terms: { ...effect.terms, softAt: instant(Infinity) } }]
  return effect.do === 'abort' && effect.stop.why === 'deadline' ? [] : [effect]
})

export const PLANTED: Readonly<Record<string, MakeSession>> = {
  'attempts are known by their job, not by their lease': keyedByJob,
  'a quiet worker goes on asking': asksOnWhileQuiet,
  'what arrives while the worker is quiet is started': startsWhileQuiet,
  'beats go on after the deregistration': beatsAfterLeaving,
  'jobs are handed back while a call asks for jobs': handsBackBesideAsking,
  'a newer lease is started beside the older': startsBesideOlder,
  'a hand-back uses a try': misdoes((effect) => [
    withReports(effect, (report) =>
      isHandBack(report) && report.kind === 'nack' ? { ...report, requeue: false } : report,
    ),
  ]),
  'a lost answer is never recovered': mishears((input) => (input.in === 'beat' ? { ...input, unlisted: [] } : input)),
  'orders are obeyed by job, not by lease': obeysByJob,
  'an answer to an older state is obeyed': obeysOldAnswers,
  'a report is dropped when its call failed': dropsReports,
  'a stop hands back what still runs': stopsWithoutWaiting,
  'beats come at the usual interval whatever the clocks': misdoes((effect) =>
    effect.do === 'watch'
      ? [{ ...effect, watched: { ...effect.watched, stallMs: null, visibilityMs: null } }]
      : [effect],
  ),
  'beats leave out jobs that wait for a slot': listsOnlyBegun,
  'a job begins although it waited for a slot for too long': beginsLate,
  'a quiet worker keeps jobs that wait for a slot': withholds(/before the job could begin/),
  'a job that waited for a slot for too long is not handed back': withholds(TOO_LONG),
  'a job that waits for a slot is not cancelled': cancelsOnlyBegun,
  'a heartbeat that failed counts as answered': trustsSilence,
  'a step that is stored is forgotten': mishears((input) => withSteps(input, (steps) => steps.slice(0, -1))),
  'a sleep is not slept': sleepsNot,
  'a sleep uses a try': misdoes((effect) => [
    withSleeps(effect, (report) => ({ ...unslept(report), kind: 'nack', requeue: false, error: report.error })),
  ]),
  'a handler does not learn that its time is over': knowsNoEnd,
  'an order to resume is ignored': mishears((input) =>
    withOrders(input, (orders) => (orders.state === 'running' ? { stops: orders.stops, isForgotten: false } : orders)),
  ),
  'an order to cancel is ignored': mishears((input) =>
    withOrders(input, (orders) => ({ ...orders, stops: orders.stops.filter(({ reason }) => reason !== 'cancelled') })),
  ),
}
