/**
 * What clients saw, held against what Curfew promises. Each check is sound: it reports only what no order of events behind
 * the answers could explain. A call counts from the moment it was sent to the moment its answer arrived; a call without an
 * answer may or may not have happened.
 */
import type { Absence, Evidence, HandedOut, HandOut, JobRecord } from './evidence.ts'
import type { Call } from './journal.ts'

export const PROMISES = {
  'lost-job': 'an acknowledged job exists',
  'lost-result': 'an acknowledged result is the result of its job',
  'lost-checkpoint': 'an acknowledged checkpoint is given to the next attempt',
  'lost-run': 'an acknowledged run exists, once for each key, and ends by its deadline',
  'two-results': 'at most one result of a job is accepted',
  'stale-fence': 'a report of an older lease is refused',
  'handed-out-twice': 'a lease is handed out once',
  overlap: 'a job is handed out again only when the attempt before is over',
  'ran-beside': 'two handlers of the SDK never run for one job at the same time',
  late: 'no state lasts longer than its deadline allows',
  early: 'no ending comes before the limit that it names',
  'too-many-attempts': 'a job has no more attempts than it was allowed',
  'events-disagree': 'the events of a job lead to its stored state',
  'wrong-answer': 'a call is answered by success, a refusal or 503',
} as const

export type PromiseName = keyof typeof PROMISES

export interface Violation {
  readonly promise: PromiseName
  /** The job or run. */
  readonly subject: string
  readonly what: string
}

/** Once a stopped process goes on, its handlers learn of their lost leases with the next answer. */
const WAKING_MS = 2_000
const ENDINGS = ['completed', 'discarded', 'cancelled']

export function check(evidence: Evidence): Violation[] {
  const byJob = groupCalls(evidence.calls)
  const handOuts = handOutsOf(evidence.calls)
  return [
    ...wrongAnswers(evidence.calls),
    ...lostJobs(evidence),
    ...[...byJob].flatMap(([id, calls]) => ofJob(id, calls, handOuts.get(id) ?? [], evidence)),
    ...runs(evidence),
    ...times(evidence),
    ...events(evidence),
  ]
}

// ---- Answers ----

const subjectOf = ({ request }: Call): string => {
  const named = request['id'] ?? request['job_id'] ?? request['key']
  return typeof named === 'string' ? named : '-'
}

function wrongAnswers(calls: readonly Call[]): Violation[] {
  return calls
    .filter(({ op, status }) => op !== 'handler' && status !== null && !isExpected(status))
    .map((call) => ({
      promise: 'wrong-answer' as const,
      subject: subjectOf(call),
      what: `${call.op} of ${call.who} was answered ${String(call.status)}: ${JSON.stringify(call.answer)}`,
    }))
}

const isExpected = (status: number): boolean => status < 300 || status === 409 || status === 503 || status === 404

// ---- Jobs ----

function groupCalls(calls: readonly Call[]): Map<string, Call[]> {
  const byJob = new Map<string, Call[]>()
  for (const call of calls) {
    if (call.op === 'fetch' || call.op === 'start-run' || call.op === 'register') continue
    const id = subjectOf(call)
    const known = byJob.get(id)
    if (known === undefined) byJob.set(id, [call])
    else known.push(call)
  }
  return byJob
}

/** By job, in the order in which the answers arrived. */
export function handOutsOf(calls: readonly Call[]): Map<string, HandOut[]> {
  const byJob = new Map<string, HandOut[]>()
  for (const { op, who, sentAt, answeredAt, answer } of calls) {
    if (op !== 'fetch' || answeredAt === null) continue
    for (const job of (answer['jobs'] ?? []) as HandedOut[]) {
      const known = byJob.get(job.id) ?? []
      byJob.set(job.id, [...known, { ...job, who, sentAt, answeredAt }])
    }
  }
  for (const handOuts of byJob.values()) handOuts.sort((a, b) => a.answeredAt - b.answeredAt)
  return byJob
}

function lostJobs({ calls, jobs }: Evidence): Violation[] {
  const acknowledged = calls.filter(({ op, status }) => op === 'enqueue' && (status === 201 || status === 200))
  return acknowledged
    .filter(({ request }) => jobs.get(String(request['id'])) === null)
    .map((call) => ({
      promise: 'lost-job' as const,
      subject: subjectOf(call),
      what: 'it was acknowledged, and the server does not know it',
    }))
}

function ofJob(id: string, calls: readonly Call[], handOuts: readonly HandOut[], evidence: Evidence): Violation[] {
  const wrong: Violation[] = []
  const note = (promise: PromiseName, what: string): number => wrong.push({ promise, subject: id, what })
  const accepted = calls.filter(
    ({ op, status, answer }) => op === 'ack' && status === 200 && answer['already'] !== true,
  )
  if (accepted.length > 1)
    note('two-results', `${String(accepted.length)} results were accepted: ${accepted.map(nameReport).join('; ')}`)

  const job = evidence.jobs.get(id)
  for (const call of calls) {
    if (call.op !== 'ack' || call.status !== 200) continue
    const isStored = job?.state === 'completed' && job.result?.['lease'] === call.request['x_lease']
    if (job !== undefined && !isStored)
      note('lost-result', `${nameReport(call)} was accepted; the job is ${inShort(job)}`)
  }
  for (const call of calls.filter(isAcceptedReport)) {
    const newer = handOuts.find(
      ({ lease, answeredAt }) => lease > Number(call.request['x_lease']) && answeredAt < call.sentAt,
    )
    if (newer !== undefined)
      note(
        'stale-fence',
        `${nameReport(call)} was accepted after lease ${String(newer.lease)} was handed to ${newer.who}`,
      )
  }
  for (const [index, handOut] of handOuts.entries()) {
    const before = handOuts[index - 1]
    if (before !== undefined) checkPair(before, handOut, calls, evidence, note)
    if (job?.state === 'completed' && accepted.some(({ answeredAt }) => (answeredAt ?? Infinity) < handOut.sentAt))
      note('overlap', `lease ${String(handOut.lease)} was handed to ${handOut.who} after a result had been accepted`)
    checkCheckpoint(handOut, calls, note)
  }
  for (const what of besides(
    calls.filter(({ op }) => op === 'handler'),
    evidence.absences,
  ))
    note('ran-beside', what)
  return wrong
}

type Note = (promise: PromiseName, what: string) => unknown

function checkPair(before: HandOut, next: HandOut, calls: readonly Call[], evidence: Evidence, note: Note): void {
  if (before.lease === next.lease) {
    note('handed-out-twice', `lease ${String(next.lease)} was handed to ${before.who} and to ${next.who}`)
    return
  }
  const [older, newer] = before.lease < next.lease ? [before, next] : [next, before]
  const validUntil = older.sentAt + soonest(older, evidence.workerTimeoutMs)
  const isReported = calls.some(
    ({ op, request, sentAt }) =>
      (op === 'ack' || op === 'nack') && request['x_lease'] === older.lease && sentAt < newer.answeredAt,
  )
  if (newer.answeredAt >= validUntil || isReported) return
  const early = Math.round(validUntil - newer.answeredAt)
  note(
    'overlap',
    `lease ${String(newer.lease)} was handed to ${newer.who} at least ${String(early)} ms before lease ${String(older.lease)} of ${older.who} could have ended`,
  )
}

/** The shortest of its clocks: no sign of life is needed for it to last this long. */
function soonest({ limits }: HandOut, workerTimeoutMs: number): number {
  const lengths = ['soft_ms', 'hard_ms', 'beat_ms', 'visibility_ms', 'heartbeat_timeout_ms'].map((name) => limits[name])
  return Math.min(workerTimeoutMs, ...lengths.filter((length) => length !== undefined))
}

function checkCheckpoint(handOut: HandOut, calls: readonly Call[], note: Note): void {
  const saves = calls.filter(({ op }) => op === 'checkpoint')
  const saved = saves.filter(
    ({ status, answeredAt }) => status !== null && status < 300 && (answeredAt ?? Infinity) < handOut.sentAt,
  )
  const last = saved.at(-1)
  if (last === undefined) return
  // One that was sent later, or has no answer, may have replaced it.
  const possible = saves.filter(({ sentAt }) => sentAt >= last.sentAt).map(textOf)
  const given = handOut.checkpoint?.state?.text
  if (!possible.includes(given))
    note(
      'lost-checkpoint',
      `"${String(textOf(last))}" was saved, and lease ${String(handOut.lease)} was given "${String(given)}"`,
    )
}

const textOf = ({ request }: Call): string | undefined => (request['state'] as { text?: string } | undefined)?.text

/** Handlers of one job that ran at the same time, where their processes were able to know better. */
function besides(handlers: readonly Call[], absences: readonly Absence[]): string[] {
  const wrong: string[] = []
  const ordered = [...handlers].sort((a, b) => a.sentAt - b.sentAt)
  for (const [index, earlier] of ordered.entries())
    for (const later of ordered.slice(index + 1)) {
      const isExcused = absences.some(
        ({ who, from, to, onlyUnended = false }) =>
          who === earlier.who &&
          from <= later.sentAt &&
          later.sentAt <= to + WAKING_MS &&
          (!onlyUnended || earlier.answeredAt === null),
      )
      if ((earlier.answeredAt ?? Infinity) <= later.sentAt || isExcused) continue
      wrong.push(`the handler of ${earlier.who} still ran when ${later.who} began`)
    }
  return wrong
}

const isAcceptedReport = ({ op, status, answer }: Call): boolean =>
  (op === 'ack' || op === 'nack') && status === 200 && answer['already'] !== true

const nameReport = ({ op, who, request }: Call): string => `${op} of lease ${String(request['x_lease'])} by ${who}`

const inShort = (job: JobRecord | null): string =>
  job === null ? 'gone' : `${job.state} with ${JSON.stringify(job.result ?? job.error ?? null)}`

// ---- Runs ----

function runs({ calls, runs: stored, outages, lateMs }: Evidence): Violation[] {
  const wrong: Violation[] = []
  const note = (subject: string, what: string): number => wrong.push({ promise: 'lost-run', subject, what })
  const byKey = new Map<string, Set<string>>()
  for (const { op, status, request, answer } of calls) {
    if (op !== 'start-run' || status === null || status >= 300) continue
    const key = String(request['key'])
    byKey.set(key, (byKey.get(key) ?? new Set()).add(String(answer['runId'])))
  }
  for (const [key, ids] of byKey) {
    if (ids.size > 1) note(key, `its key gave ${String(ids.size)} runs: ${[...ids].join(', ')}`)
    for (const id of ids) {
      const run = stored.get(id)
      if (run === null) note(id, 'it was acknowledged, and the server does not know it')
      else if (run !== undefined && (run.endedAt ?? null) === null) note(id, `it is ${run.phase} and should be over`)
      else if (run !== undefined) {
        const [ended, deadline] = [Date.parse(run.endedAt ?? ''), Date.parse(run.deadlineAt)]
        const late = ended - deadline - overlapWith(outages, Date.parse(run.startedAt), ended)
        if (late > lateMs) note(id, `it ended ${String(Math.round(late))} ms after its deadline`)
      }
    }
  }
  return wrong
}

// ---- Times ----

function times(evidence: Evidence): Violation[] {
  const wrong: Violation[] = []
  const { outages, lateMs } = evidence
  for (const [id, job] of evidence.jobs) {
    if (job === null) continue
    if (!ENDINGS.includes(job.state)) {
      wrong.push({ promise: 'late', subject: id, what: `it is ${job.state} after all of its deadlines` })
      continue
    }
    const created = Date.parse(job.created_at)
    const ended = Date.parse(job.completed_at ?? job.discarded_at ?? job.cancelled_at ?? '')
    const over = ended - created - (job.total_timeout_ms ?? Infinity) - overlapWith(outages, created, ended)
    if (over > lateMs)
      wrong.push({ promise: 'late', subject: id, what: `it ended ${String(Math.round(over))} ms after its total` })
    for (const { kind, from, to, effective_ms } of evidence.explained.get(id)?.spans ?? []) {
      if (to === undefined || effective_ms === undefined) continue
      const [begin, end] = [Date.parse(from), Date.parse(to)]
      const late = end - begin - effective_ms - overlapWith(outages, begin, end)
      if (late > lateMs)
        wrong.push({ promise: 'late', subject: id, what: `its ${kind} lasted ${String(Math.round(late))} ms too long` })
    }
    for (const error of job.errors ?? (job.error === undefined ? [] : [job.error])) {
      const { limit_ms, elapsed_ms, details, type } = error
      if (limit_ms === undefined || elapsed_ms === undefined || details?.predicted === true) continue
      if (elapsed_ms < limit_ms)
        wrong.push({
          promise: 'early',
          subject: id,
          what: `${type} names a limit of ${String(limit_ms)} ms after ${String(elapsed_ms)} ms`,
        })
    }
  }
  return wrong
}

function overlapWith(outages: Evidence['outages'], from: number, to: number): number {
  return outages.reduce((sum, outage) => sum + Math.max(0, Math.min(to, outage.to) - Math.max(from, outage.from)), 0)
}

// ---- Events ----

/** The state that an event leaves its job in; others say nothing of it. */
const STATE_AFTER: Readonly<Record<string, string>> = {
  'job.enqueued': 'available',
  'job.scheduled': 'scheduled',
  'job.started': 'active',
  'job.completed': 'completed',
  'job.retrying': 'retryable',
  'job.discarded': 'discarded',
  'job.cancelled': 'cancelled',
}
const FOLLOWS: Readonly<Record<string, readonly string[]>> = {
  available: ['', 'scheduled', 'retryable', 'active', 'discarded'],
  scheduled: [''],
  active: ['available'],
  completed: ['active'],
  retryable: ['active'],
  discarded: ['available', 'active', 'retryable', 'scheduled'],
  cancelled: ['available', 'active', 'retryable', 'scheduled'],
}

function events({ events: stored, jobs }: Evidence): Violation[] {
  const wrong: Violation[] = []
  const states = new Map<string, string>()
  for (const { type, subject } of stored) {
    const state = STATE_AFTER[type]
    if (state === undefined || !jobs.has(subject)) continue
    const before = states.get(subject) ?? ''
    if (FOLLOWS[state]?.includes(before) !== true)
      wrong.push({ promise: 'events-disagree', subject, what: `${type} follows the state "${before}"` })
    states.set(subject, state)
  }
  wrong.push(...tooManyAttempts(stored, jobs))
  for (const [id, job] of jobs) {
    const told = states.get(id)
    if (job !== null && told !== job.state)
      wrong.push({
        promise: 'events-disagree',
        subject: id,
        what: `it is ${job.state}, its events say ${String(told)}`,
      })
  }
  return wrong
}

/** Attempts that were handed back do not count. */
function tooManyAttempts(stored: Evidence['events'], jobs: Evidence['jobs']): Violation[] {
  const used = new Map<string, number>()
  for (const { type, subject } of stored) {
    const change = type === 'job.started' ? 1 : type === 'job.interrupted' ? -1 : 0
    if (change !== 0) used.set(subject, (used.get(subject) ?? 0) + change)
  }
  return [...jobs].flatMap(([id, job]) => {
    const attempts = used.get(id) ?? 0
    if (job === null || attempts <= job.max_attempts) return []
    const what = `${String(attempts)} attempts began, ${String(job.max_attempts)} were allowed`
    return [{ promise: 'too-many-attempts' as const, subject: id, what }]
  })
}
