/** The body of a BEAT: who lives, in which state, with which jobs. */
import { writeLog, type Instant } from '@curfew/core'
import type { Connection } from '../client/connection.ts'
import type { LogLines } from '../attempt/job-log.ts'
import type { BeatAnswer, LastCall, Watched, WorkerFacts, WorkerState } from './protocol.ts'

/** What a beat says of an attempt. */
export type InBeat = Pick<Watched, 'key' | 'jobId' | 'lease' | 'manual'>

/**
 * `fences`: the server understands leases, and signs apart from the list. Elsewhere a handler that must prove its life
 * by itself and did not is left out of the list. `stacks`: where the handlers of these attempts are stuck, by key. `logs`: what attempts have logged, by key.
 */
export function beatBody(
  facts: WorkerFacts,
  state: WorkerState,
  watched: readonly InBeat[],
  signs: ReadonlySet<string>,
  now: Instant,
  fences: boolean,
  stacks: ReadonlyMap<string, readonly string[]> = new Map(),
  logs: ReadonlyMap<string, LogLines> = new Map(),
): Record<string, unknown> {
  const isProven = ({ manual, key }: InBeat): boolean => !manual || signs.has(key)
  const listed = fences ? watched : watched.filter(isProven)
  const ids = listed.map(({ jobId }) => jobId)
  const common = { ...facts, state, active_jobs: ids.length, active_job_ids: ids }
  if (!fences) return common
  const leases: Record<string, number> = {}
  for (const { jobId, lease } of listed) if (lease !== null) leases[jobId] = lease
  const stuck = listed.flatMap(({ key, jobId }) => {
    const stack = stacks.get(key)
    return stack === undefined ? [] : [[jobId, stack] as const]
  })
  const logged = listed.flatMap(({ key, jobId }) => {
    const log = logs.get(key)
    return log === undefined ? [] : [[jobId, writeLog(log.from, log.lines)] as const]
  })
  return {
    ...common,
    // Beats come from two threads; both read the same clock.
    seq: Math.floor(now),
    x_leases: leases,
    ...(stuck.length > 0 ? { x_stacks: Object.fromEntries(stuck) } : {}),
    ...(logged.length > 0 ? { x_logs: Object.fromEntries(logged) } : {}),
    ...(listed.some(({ manual }) => manual) ? { x_beats: listed.filter(isProven).map(({ jobId }) => jobId) } : {}),
  }
}

/** Tried once: the next beat is the next try. */
export function sendBeat(
  connection: Connection,
  body: Record<string, unknown>,
  timeoutMs: number,
): Promise<BeatAnswer> {
  return connection.call<BeatAnswer>({
    method: 'POST',
    path: '/ojs/v1/workers/heartbeat',
    body,
    idempotent: false,
    timeoutMs,
  })
}

/** How long the last words of a process may take, each. */
const LAST_CALL_MS = 1_500

/** Tried once: no time is left for a second try. */
export async function sendLast(connection: Connection, { path, body }: LastCall): Promise<void> {
  await connection.call({ method: 'POST', path, body, idempotent: false, timeoutMs: LAST_CALL_MS })
}
