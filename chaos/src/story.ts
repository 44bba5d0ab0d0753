/** A violation as one readable story: what clients saw of the job beside what the server says of it. */
import { handOutsOf, PROMISES, type Violation } from './checker.ts'
import type { Evidence } from './evidence.ts'
import type { Call } from './journal.ts'

export function storyOf(violation: Violation, evidence: Evidence, faults: readonly string[]): string {
  const { promise, subject, what } = violation
  const job = evidence.jobs.get(subject)
  const explained = evidence.explained.get(subject)
  const seen = lifeOf(subject, evidence)
  return [
    `## ${promise}: ${subject}`,
    '',
    `Promised: ${PROMISES[promise]}. Seen: ${what}.`,
    '',
    '### What clients saw',
    '',
    '```',
    ...(seen.length === 0 ? ['nothing'] : seen),
    '```',
    '',
    '### What the server says',
    '',
    '```',
    explained?.text ?? 'nothing: explain has no answer',
    JSON.stringify(job ?? evidence.runs.get(subject) ?? null, null, 2),
    '```',
    '',
    '### What was done meanwhile',
    '',
    '```',
    ...around(faults, evidence, subject),
    '```',
    '',
  ].join('\n')
}

function lifeOf(subject: string, evidence: Evidence): string[] {
  const lines: { at: number; text: string }[] = []
  for (const call of evidence.calls) {
    const { op, who, request, sentAt, sentWall, answeredAt, status } = call
    if (request['id'] !== subject && request['job_id'] !== subject && call.answer['runId'] !== subject) continue
    const lease = typeof request['x_lease'] === 'number' ? ` lease ${String(request['x_lease'])}` : ''
    const took = answeredAt === null ? 'no answer' : `${String(status)} after ${(answeredAt - sentAt).toFixed(1)} ms`
    lines.push({ at: sentAt, text: `${time(sentWall)}  ${who}  ${op}${lease}: ${took} ${detail(call)}` })
  }
  for (const { who, lease, attempt, sentAt, answeredAt, limits } of handOutsOf(evidence.calls).get(subject) ?? []) {
    const wall = wallAt(evidence, sentAt)
    const text = `${time(wall)}  ${who}  fetch: lease ${String(lease)}, attempt ${String(attempt)}, answered after ${(answeredAt - sentAt).toFixed(1)} ms, ${JSON.stringify(limits)}`
    lines.push({ at: sentAt, text })
  }
  return lines.sort((a, b) => a.at - b.at).map(({ text }) => text)
}

function detail({ op, request, answer, status }: Call): string {
  if (op === 'enqueue' && status !== null && status < 300) return JSON.stringify(request)
  const { status: _, ...rest } = answer
  return Object.keys(rest).length === 0 ? '' : JSON.stringify(rest)
}

function wallAt({ calls }: Evidence, at: number): number {
  const near = calls.find(({ sentAt }) => sentAt >= at) ?? calls.at(-1)
  return near === undefined ? 0 : near.sentWall + (at - near.sentAt)
}

const time = (wall: number): string => new Date(wall).toISOString()

/** Faults from a little before the first sign of the job to a little after the last. */
function around(faults: readonly string[], { calls, jobs }: Evidence, subject: string): string[] {
  const job = jobs.get(subject)
  const times = calls.filter(({ request }) => request['id'] === subject || request['job_id'] === subject)
  const first = times[0]?.sentWall ?? Date.parse(job?.created_at ?? '')
  const last = Math.max(times.at(-1)?.sentWall ?? 0, Date.parse(job?.completed_at ?? job?.discarded_at ?? '') || 0)
  const near = faults.filter((line) => {
    const at = Date.parse(line.slice(0, 24))
    return at > first - 3_000 && at < last + 3_000
  })
  return near.length === 0 ? ['no fault'] : near
}
