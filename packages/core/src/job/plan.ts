/**
 * Foresight: what the limits of a job mean together, before anything runs. Which limit ends each stage, which attempts
 * can still fit, and what can never happen. `jobs/plan` shows it, and an enqueue that cannot succeed is answered with a warning.
 */
import { millis, type Instant, type Millis, type Random } from '../time/clock.ts'
import { after, elapsed } from '../time/sums.ts'
import { effectiveTotal, expiryAt, softDeadlineAt, totalAt, ttlAt } from './deadlines.ts'
import type { Hold, Job } from './job.ts'
import { shortHeartbeat, SOURCE_IN_WORDS, askedSource, type Limit, type LimitSettings } from './limits.ts'
import { settleAtClaim, type AttemptLimits, type Claimant } from './settle.ts'
import { limitsView, type LimitsView } from '../wire/job/render.ts'
import { ROW_ALONE } from './liveness.ts'
import { foresee } from './timeline/foresee.ts'
import { backoffMs, DEFAULT_RETRY, TIMED_OUT, verdictOn, type Verdict } from './retry.ts'

export interface Winner {
  readonly stage: 'waiting' | 'attempt' | 'life'
  readonly limit: string
  readonly source: string
  readonly after_ms: number
}

export interface PlannedAttempt {
  readonly attempt: number
  readonly starts_after_ms: number
  readonly fits: boolean
}

export interface Plan {
  readonly limits: LimitsView
  readonly wins: readonly Winner[]
  readonly attempts: readonly PlannedAttempt[]
  readonly warnings: readonly string[]
}

/** No more attempts than this are spelled out. */
const SHOWN_ATTEMPTS = 50
const middling: Random = () => 0.5

/** `job` as it would be admitted now. The plan takes a registered worker that starts it at once and always times out. */
export function planFor(job: Job, settings: LimitSettings, beatEveryMs: Millis, now: Instant): Plan {
  const attempt = settleAtClaim(job.limits, PLAIN_CLAIM, settings)
  const attempts = plannedAttempts(job, attempt, now)
  const warnings = [
    ...impossibilities(job),
    ...shortened(job, attempt),
    ...rarelyHeard(attempt.heartbeat, beatEveryMs),
    ...reservedTooLong(job.limits),
    ...doubts(job, attempt, attempts, now),
  ]
  return { limits: limitsView(job), wins: winners(job, attempt, attempts, now), attempts, warnings }
}

const PLAIN_CLAIM: Claimant = { handler: null, known: true, fetchVisibilityMs: null }

/**
 * What an enqueue warns of: the job never runs, gets less time than was asked for, is judged by beats that come too
 * rarely, or is reserved for longer than an attempt may take. Of a default the log warns once, at the start of the server, not every job.
 */
export function warningsFor(job: Job, settings: LimitSettings, beatEveryMs: Millis): string[] {
  const warnings = [...impossibilities(job), ...limitWarnings(job.limits, beatEveryMs)]
  if (totalAt(job) !== null) warnings.push(...shortened(job, settleAtClaim(job.limits, PLAIN_CLAIM, settings)))
  return warnings
}

/** Of limits alone, whenever their job begins: for cron entries, and steps whose turn comes later. */
export function limitWarnings(limits: Job['limits'], beatEveryMs: Millis): string[] {
  const { heartbeat } = limits
  return [
    ...(askedSource(heartbeat) === 'default' ? [] : rarelyHeard(heartbeat, beatEveryMs)),
    ...reservedTooLong(limits),
  ]
}

function rarelyHeard(heartbeat: Limit | null, beatEveryMs: Millis): string[] {
  if (heartbeat === null) return []
  const warning = shortHeartbeat('heartbeat_timeout', heartbeat.ms, SOURCE_IN_WORDS[heartbeat.source], beatEveryMs)
  return warning === null ? [] : [warning]
}

/** A default visibility follows the timeout; one that was set does not. */
function reservedTooLong({ visibility, timeout }: Job['limits']): string[] {
  if (visibility === null || visibility.ms <= timeout.ms) return []
  return [
    `visibility_timeout of ${inSeconds(visibility.ms)} s (${SOURCE_IN_WORDS[visibility.source]}) is longer than the timeout of ${inSeconds(timeout.ms)} s: an attempt without a sign of life reaches its timeout before its reservation ends. Set a visibility_timeout of at most ${inSeconds(timeout.ms)} s, or leave it out.`,
  ]
}

/** The reserve before the total takes time from the handler, where both limits were set; or the grace does not fit. */
function shortened(job: Job, limits: AttemptLimits): string[] {
  const { createdAt, scheduledAt } = job
  const startsAt = scheduledAt !== null && scheduledAt > createdAt ? scheduledAt : createdAt
  const total = totalAt(job)
  if (total === null || total <= startsAt) return []
  const soft = softDeadlineAt(asStarted(job, limits, 1, startsAt)) ?? total
  const [leftMs, softMs] = [elapsed(startsAt, total), elapsed(startsAt, soft)]
  const reserve = inSeconds(elapsed(soft, total))
  if (askedSource(limits.grace) !== 'default' && limits.grace.ms >= leftMs) {
    return [
      `grace_period of ${inSeconds(limits.grace.ms)} s does not fit into the ${inSeconds(leftMs)} s that total_timeout leaves: the handler is asked to stop after ${inSeconds(softMs)} s, ${reserve} s before total_timeout. Set a shorter grace_period or a longer total_timeout.`,
    ]
  }
  if (soft === total || softMs >= limits.timeout.ms || askedSource(limits.timeout) === 'default') return []
  return [
    `The last ${reserve} s before total_timeout are kept for the handler to stop in (grace_period): of the ${inSeconds(leftMs)} s that total_timeout leaves, the handler gets ${inSeconds(softMs)} s before it is asked to stop, not its timeout of ${inSeconds(limits.timeout.ms)} s. Set a longer total_timeout, or a shorter grace_period.`,
  ]
}

/** What makes sure that the job never runs. */
export function impossibilities(job: Job): string[] {
  const warnings: string[] = []
  const { createdAt, scheduledAt } = job
  const ends = (at: Instant | null, name: string): void => {
    if (at === null) return
    if (at <= createdAt)
      warnings.push(`${name} has already passed: the job will expire at once, without ever starting.`)
    else if (scheduledAt !== null && at <= scheduledAt)
      warnings.push(`${name} ends before scheduled_at: the job will expire without ever starting.`)
  }
  ends(ttlAt(job), 'enqueue_ttl')
  ends(expiryAt(job), 'expires_at')
  ends(totalAt(job), 'total_timeout')
  return warnings
}

function plannedAttempts(job: Job, limits: AttemptLimits, now: Instant): PlannedAttempt[] {
  const starts = foreseenStarts(job, now)
  const planned: PlannedAttempt[] = []
  let startsAt = job.scheduledAt !== null && job.scheduledAt > now ? job.scheduledAt : now
  const count = Math.min(Math.max(1, job.retry.maxAttempts), SHOWN_ATTEMPTS)
  for (let attempt = 1; attempt <= count; attempt += 1) {
    if (attempt > 1) {
      const hardAt = after(after(startsAt, limits.timeout.ms), limits.grace.ms)
      startsAt = after(hardAt, backoffMs(job.retry, attempt - 1, middling))
    }
    planned.push({ attempt, starts_after_ms: elapsed(now, startsAt), fits: attempt <= starts })
  }
  return planned
}

/** Of an attempt: its start, the question to stop, its end, and the end of the backoff. */
const STEPS_OF_ATTEMPT = 4

/** How many attempts the rules of the server let begin. A job that waits to be activated is planned as if it were. */
function foreseenStarts(job: Job, now: Instant): number {
  const asked: Job = job.state === 'pending' ? { ...job, state: 'available' } : job
  const most = SHOWN_ATTEMPTS * STEPS_OF_ATTEMPT + 1
  const { steps } = foresee(asked, ROW_ALONE, now, { assume: 'living', most, chance: middling })
  return steps.filter(({ kind }) => kind === 'start').length
}

/** What the server will decide when this attempt has timed out. */
function verdictOnTimeout(
  job: Job,
  limits: AttemptLimits,
  attempt: number,
  startsAt: Instant,
  hardAt: Instant,
): Verdict {
  return verdictOn(asStarted(job, limits, attempt, startsAt), TIMED_OUT, hardAt, middling)
}

/** The job as it would be once this attempt has started. */
function asStarted(job: Job, limits: AttemptLimits, attempt: number, startsAt: Instant): Job {
  const hold: Hold = {
    workerId: null,
    known: true,
    ...limits,
    signAt: startsAt,
    visibleFrom: startsAt,
    visibleMs: limits.visibility.ms,
  }
  return { ...job, attempt, startedAt: startsAt, hold }
}

/** Whether attempts are left that a timeout takes away: by its mode, or because the policy does not retry timeouts. */
function endsAtFirstTimeout(job: Job, limits: AttemptLimits, now: Instant): boolean {
  return job.retry.maxAttempts > 1 && verdictOnTimeout(job, limits, 1, now, now).kind === 'discard'
}

function winners(job: Job, limits: AttemptLimits, attempts: readonly PlannedAttempt[], now: Instant): Winner[] {
  const waiting = waitingWinner(job, now)
  const attempt = attemptWinner(job, limits, attempts, now)
  return [...(waiting === null ? [] : [waiting]), attempt, lifeWinner(job, limits, attempts, waiting, now)]
}

function waitingWinner(job: Job, now: Instant): Winner | null {
  const total = effectiveTotal(job)
  const limits: [string, Instant | null, string][] = [
    ['total_timeout', total?.at ?? null, total?.source ?? ''],
    ['enqueue_ttl', ttlAt(job), job.limits.ttl?.source ?? ''],
    ['expires_at', expiryAt(job), 'publish'],
  ]
  let first: Winner | null = null
  for (const [limit, at, source] of limits) {
    if (at === null) continue
    const afterMs = elapsed(now, at)
    if (first === null || afterMs < first.after_ms) first = { stage: 'waiting', limit, source, after_ms: afterMs }
  }
  return first
}

function attemptWinner(
  job: Job,
  { timeout, grace }: AttemptLimits,
  attempts: readonly PlannedAttempt[],
  now: Instant,
): Winner {
  const total = effectiveTotal(job)
  const hardMs = timeout.ms + grace.ms
  const leftMs = leftAtFirstStart(job, attempts, now)
  return total !== null && leftMs !== null && leftMs <= hardMs
    ? { stage: 'attempt', limit: 'total_timeout', source: total.source, after_ms: leftMs }
    : { stage: 'attempt', limit: 'timeout', source: timeout.source, after_ms: hardMs }
}

function lifeWinner(
  job: Job,
  limits: AttemptLimits,
  attempts: readonly PlannedAttempt[],
  waiting: Winner | null,
  now: Instant,
): Winner {
  const { timeout, grace } = limits
  const [first, last] = [attempts[0], attempts.at(-1)]
  // What never starts is over with its wait.
  if (waiting !== null && first?.fits !== true) return { ...waiting, stage: 'life' }
  const endOf = (attempt: PlannedAttempt | undefined): number => (attempt?.starts_after_ms ?? 0) + timeout.ms + grace.ms
  const total = effectiveTotal(job)
  const totalMs = total === null ? null : elapsed(now, total.at)
  if (endsAtFirstTimeout(job, limits, now) && (totalMs === null || endOf(first) < totalMs))
    return { stage: 'life', limit: 'timeout', source: timeout.source, after_ms: endOf(first) }
  if (total !== null && totalMs !== null)
    return { stage: 'life', limit: 'total_timeout', source: total.source, after_ms: totalMs }
  const source = job.retry === DEFAULT_RETRY ? 'default' : 'publish'
  return { stage: 'life', limit: 'max_attempts', source, after_ms: endOf(last) }
}

/** What is left of the total when the first attempt starts: a schedule uses some of it up. */
function leftAtFirstStart(job: Job, attempts: readonly PlannedAttempt[], now: Instant): Millis | null {
  const total = totalAt(job)
  return total === null ? null : millis(Math.max(0, elapsed(now, total) - (attempts[0]?.starts_after_ms ?? 0)))
}

function doubts(job: Job, attempt: AttemptLimits, attempts: readonly PlannedAttempt[], now: Instant): string[] {
  const warnings: string[] = []
  const leftMs = leftAtFirstStart(job, attempts, now)
  const hardMs = millis(attempt.timeout.ms + attempt.grace.ms)
  const lost = attempts.filter(({ fits }) => !fits)
  const isOnlyOne = endsAtFirstTimeout(job, attempt, now)
  if (lost.length > 0 && attempts[0]?.fits === true && !isOnlyOne) {
    warnings.push(
      `${String(lost.length)} of ${String(attempts.length)} attempts cannot fit into total_timeout if the ones before them time out.`,
    )
  }
  if (isOnlyOne) {
    const why =
      attempt.onTimeout.mode === 'discard' ? 'x_on_timeout is "discard"' : 'non_retryable_errors names "timeout"'
    warnings.push(`${why}: an attempt that times out is the last, whatever max_attempts says.`)
  }
  const isDefaultGrace = askedSource(attempt.grace) === 'default'
  if (leftMs !== null && leftMs < hardMs && leftMs > attempt.timeout.ms && isDefaultGrace) {
    warnings.push('grace_period cannot be used in full: total_timeout ends the attempt sooner.')
  }
  if (attempt.heartbeat !== null && attempt.heartbeat.source !== 'default' && attempt.heartbeat.ms >= hardMs) {
    warnings.push('heartbeat_timeout can never fire: the attempt ends by its timeout first.')
  }
  if (attempt.visibility.ms < attempt.timeout.ms) {
    warnings.push(
      'visibility_timeout is shorter than timeout: without beats or progress the job is handed out again before it times out.',
    )
  }
  for (const [name, limit] of Object.entries({
    timeout: job.limits.timeout,
    grace_period: job.limits.grace,
    total_timeout: job.limits.total,
    enqueue_ttl: job.limits.ttl,
  })) {
    if (limit?.source === 'cap') warnings.push(`${name} is held down to ${inSeconds(limit.ms)} s by a cap.`)
  }
  return warnings
}

const inSeconds = (ms: Millis): string => String(ms / 1000)
