/** BEAT, as the model sees it: whose clocks it winds up, and what the worker must be told. */
import type { BeatBody } from '../calls.ts'
import type { Answer } from '../server.ts'
import { insist } from '../violation.ts'
import { OK, type Expected, type Model, type Notice } from './model.ts'
import { softAt, wind, type ModelWorker } from './records.ts'

/** A worker that does not list a job it lost hears of it for this long. */
const TOLD_FOR_MS = 60_000

type Stop = readonly [jobId: string, reason: string]

export function beat(model: Model, body: BeatBody, answer: Answer | null): Expected {
  if (isLate(model, body.worker_id)) {
    if (answer?.status === 200) checkLateAnswer(body.worker_id, answer)
    return OK
  }
  const worker = model.living(body.worker_id)
  const late = body.seq !== undefined && worker.beatSeq !== null && body.seq < worker.beatSeq
  wind(worker.alive, model.now)
  if (!late) {
    worker.known = true
    worker.state = body.state
    if (body.state === 'running' && worker.directive === 'resume') worker.directive = 'continue'
    worker.beatSeq = body.seq ?? worker.beatSeq
  }
  const listed = new Set(body.active_job_ids)
  const hasFinished = (id: string): boolean => model.jobs.get(id)?.closedBy?.workerId === worker.id
  const isListed = ({ jobId, lease }: Notice): boolean =>
    listed.has(jobId) && (body.x_leases?.[jobId] ?? lease) === lease
  const notices = (model.notices.get(worker.id) ?? []).filter(
    (notice) => isListed(notice) || (model.now - notice.at < TOLD_FOR_MS && !hasFinished(notice.jobId)),
  )
  model.notices.set(worker.id, notices)
  const extended: string[] = []
  const stops: Stop[] = notices
    .filter((notice) => !isListed(notice))
    .map((notice) => [notice.jobId, reasonOf(model, notice)])
  for (const id of listed) {
    const job = model.jobs.get(id)
    const hold = job?.hold ?? null
    const asked = body.x_leases?.[id]
    const isMine = hold !== null && (hold.workerId === worker.id || hold.workerId === null)
    if (job === undefined || !isMine || (asked !== undefined && asked !== job.lease)) {
      const reason = stopReason(model, worker.id, id, asked, notices)
      if (reason !== null) stops.push([id, reason])
      continue
    }
    if ((softAt(job) ?? Infinity) <= model.now) stops.push([id, 'timeout'])
    if (late) continue
    extended.push(id)
    const mostMs = job.limits.caps.visibility ?? Infinity
    wind(hold.visible, model.now, Math.min(body.visibility_timeout_ms ?? hold.visibility.ms, mostMs))
    if (body.x_beats === undefined || body.x_beats.includes(id)) wind(hold.sign, model.now)
  }
  if (answer?.status === 200) checkAnswer(worker, answer, extended, stops)
  return OK
}

/** A beat after a deregistration, which has no number here, is taken to be from before it. */
function isLate(model: Model, workerId: string): boolean {
  const leftAt = model.left.get(workerId)
  return leftAt !== undefined && model.now - leftAt < model.settings.workerTimeoutMs
}

function checkLateAnswer(workerId: string, answer: Answer): void {
  const { state, x_reregister, jobs_extended } = answer.body as Record<string, unknown>
  const isRight = state === 'terminate' && x_reregister === true && JSON.stringify(jobs_extended) === '[]'
  insist('answers', isRight, () => `a beat of ${workerId}, which has left, was answered ${String(state)}`)
}

function stopReason(
  model: Model,
  workerId: string,
  id: string,
  asked: number | undefined,
  notices: readonly Notice[],
): string | null {
  const job = model.jobs.get(id)
  if (job?.closedBy?.workerId === workerId && (asked === undefined || asked === job.closedBy.lease)) return null
  const notice = notices.findLast(({ jobId, lease }) => jobId === id && (asked === undefined || lease === asked))
  if (notice !== undefined) return reasonOf(model, notice)
  return job?.state === 'cancelled' ? 'cancelled' : 'lost'
}

/** What was lost may have been cancelled since. */
function reasonOf(model: Model, { jobId, reason }: Notice): string {
  return reason === 'lost' && model.jobs.get(jobId)?.state === 'cancelled' ? 'cancelled' : reason
}

const RANK = ['running', 'quiet', 'terminate'] as const

function checkAnswer(worker: ModelWorker, answer: Answer, extended: readonly string[], stops: readonly Stop[]): void {
  const { jobs_extended, x_cancel_jobs, state } = answer.body as {
    jobs_extended: string[]
    x_cancel_jobs: { job_id: string; reason: string }[]
    state: string
  }
  insist('answers', jobs_extended.join() === extended.join(), () => {
    return `a beat of ${worker.id} extended [${jobs_extended.join()}]; it should have been [${extended.join()}]`
  })
  const orders = (pairs: readonly Stop[]): string =>
    pairs
      .map(([id, reason]) => `${id} ${reason}`)
      .sort()
      .join()
  const told = orders(x_cancel_jobs.map(({ job_id, reason }) => [job_id, reason]))
  insist('answers', told === orders(stops), () => {
    return `a beat of ${worker.id} was told to stop [${told}]; it should have been [${orders(stops)}]`
  })
  const { directive } = worker
  const asked = directive === 'quiet' || directive === 'terminate' ? directive : 'running'
  const own = directive === 'resume' && worker.state === 'quiet' ? 'running' : worker.state
  const expected = RANK[Math.max(RANK.indexOf(asked), RANK.indexOf(own))]
  insist('answers', state === expected, () => `a beat of ${worker.id} was told ${state}, not ${String(expected)}`)
}
