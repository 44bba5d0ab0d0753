/**
 * Hindsight: why a job went as it did, from its recorded life. Spans of waiting, attempts, backoff and grace against
 * their limits, every ending with its cause, what happens next, and the same once more in plain words.
 */
import { executionAt, graceSince, hardDeadlineAt } from './deadlines.ts'
import { endingsOf, isRecord, type Ending } from './explain-endings.ts'
import { spanView, stepSpanView, type Span } from './explain-spans.ts'
import { causeInWords, earlyInWords, lateness, noRetryInWords, seconds, sourceInWords } from './explain-words.ts'
import { limitOf } from '../wire/job/failure.ts'
import { heldInWords, type HeldBy } from '../wire/job/held-by.ts'
import { isTerminal, type Job } from './job.ts'
import type { LifeEntry } from './life.ts'
import { logView, type JobLog, type LogView, type StoredLine } from './log.ts'
import { readLife } from '../wire/job/life.ts'
import type { CancelReason } from './lifecycle/change.ts'
import type { Liveness } from './liveness.ts'
import { nextView, type Next } from './next.ts'
import { clocksOf, clockView, totalName, type ClockView } from './timeline/clocks.ts'
import { foresee, foreseenView, type ForeseenView } from './timeline/foresee.ts'
import { attemptBounds, lifeSpans } from './timeline/spans.ts'
import { nextInWords } from './next-words.ts'
import type { StepSpan } from './step.ts'
import { elapsed } from '../time/sums.ts'
import { iso, millis, type Instant, type Millis } from '../time/clock.ts'
import { limitsView, type LimitsView } from '../wire/job/render.ts'

export interface Explanation {
  readonly job_id: string
  readonly state: string
  readonly limits: LimitsView
  readonly spans: readonly Span[]
  readonly endings: readonly Ending[]
  /** What happens next if no signal arrives; null when nothing is pending. */
  readonly next: Next | null
  /** The same, and what follows from it, up to five steps. */
  readonly next_steps: readonly ForeseenView[]
  /** Every clock that runs, the first to end first. */
  readonly clocks: readonly ClockView[]
  /** What keeps an available job from being handed out; null where a worker that asks gets it when its turn comes. */
  readonly held_by: HeldBy | null
  /** What its handlers logged; absent where they did not. */
  readonly log?: LogView
  readonly text: string
}

/** `steps`: the durable steps that are stored, in the order in which they began. */
export function explain(
  job: Job,
  life: Liveness,
  now: Instant,
  heldBy: HeldBy | null = null,
  steps: readonly StepSpan[] = [],
): Explanation {
  const entries = readLife(job)
  const endings = endingsOf(job, entries)
  const foreseen = foresee(job, life, now).steps
  const [first] = foreseen
  const next = first === undefined ? null : nextView(first)
  return {
    job_id: job.id,
    state: job.state,
    limits: limitsView(job, life),
    spans: [...lifeSpans(job, now).map(spanView), ...steps.map(stepSpanView)],
    endings,
    next,
    next_steps: foreseen.map(foreseenView),
    clocks: clocksOf(job, life, now).map(clockView),
    held_by: heldBy,
    ...(job.log === undefined ? {} : { log: logView(job.log) }),
    text: inWords(job, entries, endings, steps, () => nowInWords(job, next, heldBy, now)),
  }
}

const NONE = millis(0)

function inWords(
  job: Job,
  entries: readonly LifeEntry[],
  endings: readonly Ending[],
  steps: readonly StepSpan[],
  nowTold: () => string,
): string {
  const lines: string[] = []
  const details = [...steps.map(stepDetail), ...logDetails(job.log)].sort((a, b) => a.at - b.at)
  const started = new Set<number>()
  let told = 0
  /** What came before the entry. An attempt that ends in the same millisecond ends after its steps and its log. */
  const tellDetails = (until: LifeEntry | null): void => {
    for (let detail = details[told]; detail !== undefined; detail = details[(told += 1)]) {
      const { at, attempt, text } = detail
      const isLater = until !== null && (at > until.at || (at === until.at && until.to === 'active'))
      if (isLater || (until !== null && attempt !== undefined && !started.has(attempt))) return
      lines.push(`${iso(at)}  ${text}`)
    }
  }
  for (const [index, entry] of entries.entries()) {
    tellDetails(entry)
    if (entry.attempt !== undefined) started.add(entry.attempt)
    lines.push(`${iso(entry.at)}  ${sentence(entry, entries[index - 1])}`)
  }
  tellDetails(null)
  lines.push(isTerminal(job.state) ? endInWords(job, endings.at(-1), entries) : nowTold())
  return lines.join('\n')
}

function endInWords(job: Job, last: Ending | undefined, entries: readonly LifeEntry[]): string {
  if (job.state === 'completed') return `Ended completed, in attempt ${String(job.attempt)}.`
  if (last === undefined) return `Ended ${job.state}.`
  if (job.state === 'cancelled') return `Ended cancelled: ${cancelInWords(job, last)}.`
  const what =
    last.predicted === true
      ? `${last.type}, predicted: another attempt could not have ended within the total`
      : last.type
  const entry = entries.at(-1)
  const retry =
    last.predicted === true || entry?.noRetry === undefined ? '' : ` ${noRetryInWords(job, ...entry.noRetry)}`
  return `Ended discarded: ${what}${limitInWords(last, graceBefore(last, entries))}.${last.predicted === true ? whatCameBefore(last) : ''}${retry}`
}

function cancelInWords(job: Job, { cancelled_by: by, ...ending }: Ending): string {
  const reason = job.cancelReason as CancelReason | null
  if (reason === null) return 'the reason was not recorded'
  return `${causeInWords(reason, by)}${limitInWords(ending)}`
}

/** The grace that passed before the server ended the last attempt by its timeout. */
function graceBefore({ timeout_kind: kind, deadline }: Ending, entries: readonly LifeEntry[]): Millis {
  // A timeout that the worker reported has no deadline: it came within the grace, or before it.
  if (kind !== 'execution' || deadline === undefined) return NONE
  return entries.findLast(({ to }) => to === 'active')?.grace?.[0] ?? NONE
}

function limitInWords(ending: Ending, graceMs = NONE): string {
  // Earlier versions wrote seconds only.
  const {
    limit_ms: limitMs = inMillis(ending.limit_seconds),
    elapsed_ms: elapsedMs = inMillis(ending.elapsed_seconds),
  } = ending
  if (limitMs === undefined || elapsedMs === undefined) {
    if (ending.deadline !== undefined) return ` (${latenessIn(ending)})`
    return ending.early_ms === undefined ? '' : ` (${earlyInWords(ending.early_ms)})`
  }
  const source = `${ending.soft_limit === 'total' ? 'total_timeout, ' : ''}${sourceInWords(ending.source ?? 'default')}`
  const name =
    ending.type === 'cancelled'
      ? `workflow_timeout ${seconds(limitMs)}`
      : `${limitOf(ending) ?? 'limit'} ${seconds(limitMs)} (${source})${graceMs === 0 ? '' : ` and grace ${seconds(graceMs)}`}`
  const late = ending.overshoot_ms === undefined ? '' : `, ${latenessIn(ending)}`
  return ` (${name}, ${seconds(elapsedMs)} passed${excuseInWords(ending)}${late})`
}

const latenessIn = ({ overshoot_ms: overshootMs, late_ms: lateMs, downtime_ms: downtimeMs }: Ending): string =>
  lateness({ overshootMs, lateMs, downtimeMs })

const excuseInWords = ({ excused_ms: ms }: Ending): string =>
  ms === undefined ? '' : `, of which ${seconds(ms)} are not counted because no server was listening`

const inMillis = (inSeconds: number | undefined): number | undefined =>
  inSeconds === undefined ? undefined : inSeconds * 1000

const MAX_MESSAGE_LENGTH = 200

/** The failure after which another attempt would have been needed; nothing where the job was only handed back. */
function whatCameBefore({ type, cause }: Ending): string {
  if (!isRecord(cause) || typeof cause['type'] !== 'string') return ''
  const { early_ms: earlyMs, timeout_kind: kind } = cause
  const early = typeof earlyMs === 'number' && kind === undefined ? `, ${earlyInWords(earlyMs)}` : ''
  if (cause['type'] === type && early === '') return ''
  const message = typeof cause['message'] === 'string' ? cause['message'] : ''
  const short = message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH)}…` : message
  return ` Before that: ${cause['type']}${short === '' ? '' : ` (${JSON.stringify(short)})`}${early}.`
}

function nowInWords(job: Job, next: Next | null, heldBy: HeldBy | null, now: Instant): string {
  const held = heldBy === null ? '' : `: ${heldInWords(heldBy)}`
  return `Now ${job.state}${graceInWords(job, now)}${held}; ${nextInWords(job.state, next, heldBy !== null)}.`
}

function graceInWords(job: Job, now: Instant): string {
  const [soft, hard, execution] = [graceSince(job, now), hardDeadlineAt(job), executionAt(job)]
  if (soft === null || hard === null || execution === null) return ''
  const cut = hard < execution ? ', where total_timeout cuts it off' : ''
  return `: attempt ${String(job.attempt)} is in its grace, since ${iso(soft)}, until ${iso(hard)}${cut}`
}

/** What happened within an attempt. */
interface Detail {
  readonly at: Instant
  /** As the server counts them. Events of an attempt are listed after its start, which may be in the same millisecond. */
  readonly attempt?: number
  readonly text: string
}

const stepDetail = (step: StepSpan): Detail => ({ at: step.isSleep ? step.from : step.to, text: stepSentence(step) })

function logDetails(log: JobLog | undefined): Detail[] {
  if (log === undefined) return []
  const { lines, dropped } = log
  const details = lines.map((line) => ({ at: line.at, attempt: line.attempt, text: lineSentence(line) }))
  const [first] = details
  if (dropped === 0 || first === undefined) return details
  const text = `${String(dropped)} older log ${dropped === 1 ? 'line was' : 'lines were'} dropped`
  return [{ ...first, text }, ...details]
}

const lineSentence = ({ attempt, message, fields, isCut }: StoredLine): string =>
  `attempt ${String(attempt)} logged ${JSON.stringify(message)}` +
  `${fields === undefined ? '' : ` ${JSON.stringify(fields)}`}${isCut === true ? ' (cut)' : ''}`

const stepSentence = ({ name, attempt, from, to, isSleep }: StepSpan): string =>
  isSleep
    ? `attempt ${String(attempt)} sleeps in ${JSON.stringify(name)} until ${iso(to)}`
    : `attempt ${String(attempt)} stored step ${JSON.stringify(name)} after ${seconds(elapsed(from, to))}`

function sentence(entry: LifeEntry, before: LifeEntry | undefined): string {
  const why =
    entry.why === undefined ? '' : ` (${entry.why}${entry.early === undefined ? '' : `, ${earlyInWords(entry.early)}`})`
  switch (entry.to) {
    case 'active': {
      const worker = entry.worker === null || entry.worker === undefined ? '' : ` by ${JSON.stringify(entry.worker)}`
      return `attempt ${String(entry.attempt ?? 0)} started${worker}, ${mayRun(entry)}`
    }
    case 'retryable':
      return entry.backoff === undefined
        ? `failed${why}, no further attempt; waits for its total_timeout`
        : `failed${why}, next attempt in ${seconds(entry.backoff)}`
    case 'available':
      if (entry.back === true)
        return `handed back${why}, attempt ${String(before?.attempt ?? 0)} is not counted; available again`
      return `${before === undefined ? 'enqueued' : 'available'}${why}`
    case 'scheduled':
      if (entry.back === true)
        return `handed back until later${why}, attempt ${String(before?.attempt ?? 0)} is not counted; scheduled`
      return `scheduled${why}`
    case 'pending':
      return 'pending, waits to be activated'
    default:
      return `${entry.to}${why}`
  }
}

/** How long an attempt may run, and what leaves no more. */
function mayRun(entry: LifeEntry): string {
  const { timeout } = attemptBounds(entry)
  const own = `timeout ${seconds(timeout.ms)} (${sourceInWords(timeout.source)})`
  const ms = timeout.effectiveMs
  const cutBy = (source: string): string => `${totalName(source)} (${sourceInWords(source)})`
  const length =
    timeout.clampedBy === undefined
      ? `may run ${seconds(ms)} (${sourceInWords(timeout.source)})`
      : `may run ${seconds(ms)}: ${cutBy(timeout.clampSource ?? '')} leaves ${seconds(ms)} of ${own}`
  if (entry.cut === undefined) return length
  const [softMs, hardMs, source] = entry.cut
  const kept = Math.max(0, hardMs - softMs)
  return softMs >= ms || kept === 0
    ? length
    : `${length}; asked to stop after ${seconds(softMs)}: ${cutBy(source)} keeps the last ${seconds(kept)} for that`
}
