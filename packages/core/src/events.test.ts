import { expect, test } from 'vitest'
import { aJob, JOB_ID, NOON } from './builders.suite.ts'
import { eventData, jobEvent, queueEvent, workerEvent } from './wire/events.ts'

test('every job event names its job, type and queue, and its trace where there is one', () => {
  expect(jobEvent('job.enqueued', aJob({ queue: 'media' }), NOON, { priority: 0 })).toEqual({
    type: 'job.enqueued',
    at: NOON,
    subject: JOB_ID,
    queue: 'media',
    jobType: 'email.send',
    data: { job_id: JOB_ID, job_type: 'email.send', queue: 'media', priority: 0 },
  })
  expect(jobEvent('job.enqueued', aJob({ traceId: 't' }), NOON).data).toMatchObject({ trace_id: 't' })
})

test('queue and worker events are about their queue and their worker', () => {
  expect(queueEvent('queue.paused', 'media', NOON)).toMatchObject({
    subject: 'media',
    queue: 'media',
    data: { queue: 'media' },
  })
  expect(workerEvent('worker.died', 'w1', NOON, { recovered_jobs: 2 })).toMatchObject({
    subject: 'w1',
    queue: null,
    data: { worker_id: 'w1', recovered_jobs: 2 },
  })
})

test('a part of the data that is text already is laid in as it was written', () => {
  const event = { ...jobEvent('job.completed', aJob(), NOON), more: '"result":12345678901234567890' }
  expect(eventData(event)).toContain(',"result":12345678901234567890}')
  expect(JSON.parse(eventData(event))).toMatchObject({ job_id: JOB_ID })
})
