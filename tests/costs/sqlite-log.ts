/**
 * What was appended to SQLite's write-ahead log, read from the file as its format describes it. The size of the file
 * would not do: a log is used again from its start, and may be longer than what is written in it.
 */
import { readFileSync } from 'node:fs'

const HEADER = 32
const FRAME_HEADER = 24

export interface LogState {
  /** Grows by one each time the log starts again. */
  readonly generation: number
  /** Pages written in this generation. */
  readonly frames: number
  readonly commits: number
  /** Pages with their headers. */
  readonly bytes: number
}

export function readLog(database: string): LogState {
  const log = readFileSync(`${database}-wal`)
  if (log.length < HEADER) return { generation: 0, frames: 0, commits: 0, bytes: 0 }
  const pageSize = log.readUInt32BE(8)
  const salt = log.subarray(16, 24)
  let frames = 0
  let commits = 0
  const size = FRAME_HEADER + pageSize
  for (let at = HEADER; at + size <= log.length; at += size) {
    if (!log.subarray(at + 8, at + 16).equals(salt)) break
    frames += 1
    // The last page of a commit carries the size of the database; the others carry 0.
    if (log.readUInt32BE(at + 4) > 0) commits += 1
  }
  return { generation: salt.readUInt32BE(0), frames, commits, bytes: frames * size }
}

/** What was written since the log was told to start again (`PRAGMA wal_checkpoint(RESTART)`). */
export function writtenSince(before: LogState, after: LogState): Pick<LogState, 'commits' | 'bytes'> {
  const restarts = (after.generation - before.generation) >>> 0
  if (restarts === 0) return { commits: 0, bytes: 0 }
  if (restarts === 1) return after
  throw new Error('the write-ahead log started again within the path; count fewer jobs, or fewer at a time')
}
