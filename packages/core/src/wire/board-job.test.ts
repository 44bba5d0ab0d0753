import { expect, test } from 'vitest'
import { aBeat, activeJob, aJob, at, beating, JOB_ID, livenessOf, NOON } from '../builders.suite.ts'
import { ROW_ALONE } from '../job/liveness.ts'
import { timeline } from '../job/timeline/timeline.ts'
import { readBoardJob, writeBoardJob, type BoardJob } from './board-job.ts'

const document = (more: Partial<BoardJob> = {}): BoardJob => ({
  now: NOON,
  job: aJob(),
  life: ROW_ALONE,
  signs: null,
  checkpointAt: null,
  queue: null,
  isHeld: false,
  place: null,
  heldBy: null,
  ...more,
})
const roundTrip = (given: BoardJob): BoardJob => readBoardJob(JSON.parse(writeBoardJob(given)))

test('a record comes back as it was written, and its timeline is the same', () => {
  const worker = beating(at('12:00:01'))
  const given = document({
    job: activeJob({ timeoutMs: 3_000 }),
    life: livenessOf(worker),
    checkpointAt: at('12:00:01'),
  })
  const read = roundTrip(given)
  expect(read).toEqual(given)
  expect(timeline(read, at('12:00:02'))).toEqual(timeline(given, at('12:00:02')))
})

test('of its worker only what concerns the job is written, however much that worker does', () => {
  const worker = beating(at('12:00:01'))
  const others = Array.from({ length: 1_000 }, (_, index) => `job-${String(index)}`)
  const busy = {
    ...worker,
    handlers: Object.fromEntries(others.map((name) => [name, {}])),
    beat: {
      ...aBeat(at('12:00:01')),
      jobs: new Set([JOB_ID, ...others]),
      proofs: new Set([JOB_ID, ...others]),
      leases: Object.fromEntries([JOB_ID, ...others].map((id) => [id, 1])),
    },
  }
  const text = writeBoardJob(document({ job: activeJob(), life: livenessOf(busy) }))
  expect(text).not.toContain('job-7')
  const read = readBoardJob(JSON.parse(text))
  expect(read.life.worker?.beat).toMatchObject({
    jobs: new Set([JOB_ID]),
    proofs: new Set([JOB_ID]),
    leases: { [JOB_ID]: 1 },
  })
})

test.each([[null], ['text'], [{}], [{ error: { code: 'not_found' } }], [[]]])(
  '%j is not taken for a record',
  (given) => {
    expect(() => readBoardJob(given)).toThrow('not the record of a job')
  },
)

test('a record of a later version is refused by its number', () => {
  const later = { ...(JSON.parse(writeBoardJob(document())) as object), format: 99 }
  expect(() => readBoardJob(later)).toThrow('format 99; this version reads 1')
})
