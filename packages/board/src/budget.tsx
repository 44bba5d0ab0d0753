/** The budget of a job in one bar, for lists: which limit counts for it now, and how much of it is spent. */
import type { JSX } from 'preact'
import { instantOf, length, now, running } from './time.ts'
import { Bar, sourceSign } from './ui.tsx'
import type { Job } from './wire.ts'

export function Budget({ job }: { job: Job }): JSX.Element | null {
  const { x_limits: limits, state, error } = job
  if (state === 'active') {
    const started = instantOf(job.started_at)
    const limit = limits?.timeout_ms
    if (started === null || limit === undefined) return null
    const spent = now.value - started
    const share = spent / limit
    const grace = limits?.grace_ms ?? 0
    return (
      <Bar
        share={share > 1 ? limit / (limit + grace) : share}
        grace={share > 1 ? Math.min(grace, spent - limit) / (limit + grace) : 0}
        tone={share > 1 ? 'bad' : share > 0.8 ? 'warn' : ''}
        words={share > 1 ? 'grace' : `${String(Math.max(0, Math.floor(share * 100)))} %`}
      />
    )
  }
  if (
    error?.limit_ms !== undefined &&
    error.elapsed_ms !== undefined &&
    (state === 'discarded' || state === 'retryable')
  )
    return (
      <Bar
        share={error.limit_ms / Math.max(error.limit_ms, error.elapsed_ms)}
        grace={Math.max(0, error.elapsed_ms - error.limit_ms) / Math.max(error.limit_ms, error.elapsed_ms)}
        tone="bad"
        words="100 %"
      />
    )
  const total = limits?.total_ms
  const created = instantOf(job.created_at) ?? 0
  const ended = instantOf(job.completed_at ?? job.discarded_at ?? job.cancelled_at)
  if (total === undefined) return <span class="soft">no total</span>
  const share = ((ended ?? now.value) - created) / total
  const tone = ended === null ? (share > 0.8 ? 'warn' : 'calm') : state === 'completed' ? 'good' : 'calm'
  return <Bar share={share} tone={tone} words={`${String(Math.min(100, Math.max(0, Math.floor(share * 100))))} %`} />
}

/** The limit that ended the job, or the next thing that happens to it. */
export function Why({ job }: { job: Job }): JSX.Element | null {
  const { state, error, x_limits: limits } = job
  if (state === 'active') {
    const started = instantOf(job.started_at)
    if (started === null || limits?.timeout_ms === undefined) return <span class="soft">no timeout</span>
    const left = started + limits.timeout_ms - now.value
    return left > 0 ? <>asked to stop in {running(left)}</> : <>asked to stop {length(-left)} ago</>
  }
  if (state === 'retryable' && job.next_retry_at !== undefined) {
    const left = Date.parse(job.next_retry_at) - now.value
    return (
      <>
        {error === undefined ? '' : `${reasonOf(job)}, `}retry {left > 0 ? `in ${running(left)}` : 'now'}
      </>
    )
  }
  if (state === 'scheduled' && job.scheduled_at !== undefined) {
    const left = Date.parse(job.scheduled_at) - now.value
    return <>{left > 0 ? `starts in ${length(left)}` : 'starts now'}</>
  }
  if (error !== undefined && state !== 'completed') return <>{reasonOf(job)}</>
  if (state === 'available') {
    const until = instantOf(limits?.total_deadline)
    return until === null ? <span class="soft">waits for a worker</span> : <>must end in {running(until - now.value)}</>
  }
  return null
}

function reasonOf({ error }: Job): string {
  if (error === undefined) return ''
  if (error.timeout_kind === undefined) return error.type
  const limit = error.limit_ms === undefined ? '' : ` ${length(error.limit_ms)}`
  const source = error.source === undefined ? '' : ` ${sourceSign(error.source)}`
  return `${error.timeout_kind.replaceAll('_', ' ')}${limit}${source}`
}
