/** The budget of a job in one bar, for lists: which limit counts for it now, and how much of it is spent. */
import { after, timeBetween, elapsed, millis } from '@curfew/core'
import type { JSX } from 'preact'
import { instantAt, instantOf, length, now, running, untilMs } from './time.ts'
import { Bar, sourceSign } from './ui.tsx'
import type { FoundJob } from './wire.ts'

export function Budget({ job }: { job: FoundJob }): JSX.Element | null {
  const { limits, state, error } = job
  if (state === 'active') {
    const started = instantOf(job.started_at)
    if (started === null) return null
    const [limit, grace] = [limits.timeout_ms, limits.grace_ms]
    const spent = timeBetween(started, now.value)
    const share = spent / limit
    return (
      <Bar
        share={share > 1 ? limit / (limit + grace) : share}
        grace={share > 1 ? Math.min(grace, spent - limit) / (limit + grace) : 0}
        tone={share > 1 ? 'bad' : share > 0.8 ? 'warn' : ''}
        words={share > 1 ? 'grace' : `${String(Math.max(0, Math.floor(share * 100)))} %`}
      />
    )
  }
  const [limit, spent] = [Number(error?.limit_ms ?? 0), Number(error?.elapsed_ms ?? 0)]
  if (limit > 0 && spent > 0 && (state === 'discarded' || state === 'retryable'))
    return (
      <Bar
        share={limit / Math.max(limit, spent)}
        grace={Math.max(0, spent - limit) / Math.max(limit, spent)}
        tone="bad"
        words="100 %"
      />
    )
  const ended = instantOf(job.ended_at)
  if (limits.total_ms === null) return <span class="soft">no total</span>
  const share = elapsed(instantAt(job.created_at), ended ?? now.value) / limits.total_ms
  const tone = ended === null ? (share > 0.8 ? 'warn' : 'calm') : state === 'completed' ? 'good' : 'calm'
  return <Bar share={share} tone={tone} words={`${String(Math.min(100, Math.floor(share * 100)))} %`} />
}

/** The limit that ended the job, or the next thing that happens to it. */
export function Why({ job }: { job: FoundJob }): JSX.Element | null {
  const { state, error, limits } = job
  if (state === 'active') {
    const started = instantOf(job.started_at)
    if (started === null) return null
    const left = untilMs(after(started, millis(limits.timeout_ms)))
    return left > 0 ? <>asked to stop in {running(left)}</> : <>asked to stop {length(Math.abs(left))} ago</>
  }
  if (state === 'retryable' && job.next_retry_at !== null) {
    const left = untilMs(instantAt(job.next_retry_at))
    return (
      <>
        {error === null ? '' : `${reasonOf(job)}, `}retry {left > 0 ? `in ${running(left)}` : 'now'}
      </>
    )
  }
  if (state === 'scheduled' && job.scheduled_at !== null) {
    const left = untilMs(instantAt(job.scheduled_at))
    return <>{left > 0 ? `starts in ${length(left)}` : 'starts now'}</>
  }
  if (error !== null && state !== 'completed') return <>{reasonOf(job)}</>
  if (state === 'available') {
    const until = instantOf(job.deadlines.total)
    return until === null ? <span class="soft">waits for a worker</span> : <>must end in {running(untilMs(until))}</>
  }
  return null
}

function reasonOf({ error }: FoundJob): string {
  if (error === null) return ''
  if (error.timeout_kind === null) return error.type
  const limit = error.limit_ms === null ? '' : ` ${length(Number(error.limit_ms))}`
  const source = error.source === null ? '' : ` ${sourceSign(String(error.source))}`
  return `${String(error.timeout_kind).replaceAll('_', ' ')}${limit}${source}`
}
