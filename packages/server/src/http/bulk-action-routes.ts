/**
 * Cancel, retry and delete of many jobs: for applications (OJS bulk operations §6-8), for administrators (admin API §8),
 * and for the dead-letter list (dead letter §6.2). The same action, in three forms.
 */
import {
  anyObject,
  badField,
  BULK_FILTER_SHAPE,
  DEAD_LETTER_FILTER_SHAPE,
  flag,
  list,
  MOST_IN_BULK,
  object,
  OjsError,
  oneOf,
  readBulkFilter,
  readDeadLetterFilter,
  text,
  whole,
  type BulkFilter,
  type JobState,
  type Shape,
} from '@curfew/core'
import { actOnAll, actOnEach, actOnMatching, BULK_ACTIONS, type BulkAction, type BulkDone } from '../engine/bulk.ts'
import type { Answer } from './message.ts'
import { bodyOf, tenantOf, type Call, type Route } from './route.ts'

const OPEN: readonly JobState[] = ['scheduled', 'available', 'pending', 'active', 'retryable']
const OVER: readonly JobState[] = ['completed', 'cancelled', 'discarded']

/** What an action may meet, and what a filter means that names no state. */
interface Meant {
  readonly allowed: readonly JobState[]
  readonly byDefault: readonly JobState[]
}

const FOR_APPLICATIONS: Readonly<Record<BulkAction, Meant>> = {
  cancel: { allowed: OPEN, byDefault: ['available', 'scheduled'] },
  retry: { allowed: ['discarded', 'retryable'], byDefault: ['discarded', 'retryable'] },
  delete: { allowed: OVER, byDefault: OVER },
}
const FOR_ADMINISTRATORS: Readonly<Record<BulkAction, Meant>> = {
  cancel: { allowed: OPEN, byDefault: OPEN },
  retry: { allowed: ['discarded', 'cancelled', 'retryable'], byDefault: ['discarded', 'cancelled'] },
  delete: { allowed: OVER, byDefault: OVER },
}
const DONE: Readonly<Record<BulkAction, string>> = { cancel: 'cancelled', retry: 'retried', delete: 'deleted' }

/** An answer lists no more than this one by one; its numbers are of all. */
const MOST_LISTED = 1_000
const MOST_BY_FILTER = 1_000_000

/** Described here, and read when it is known what a filter means that names no state. */
const later = ({ json }: Shape<unknown>): Shape<unknown> => ({ json, read: (value) => value })

const ids = list(text(), 0, 10_000)
const limit = whole(1, MOST_BY_FILTER)
const APPLICATION_SHAPE = object({
  job_ids: list(text(), 1, Infinity),
  filter: later(BULK_FILTER_SHAPE),
  atomicity: oneOf('partial', 'atomic'),
  idempotency_key: text(),
  limit,
})
const ADMIN_SHAPE = object({ confirm: flag(), job_ids: ids, filter: later(BULK_FILTER_SHAPE), limit })
const DEAD_LETTER_SHAPE = object({
  confirm: flag(),
  job_ids: ids,
  filter: later(DEAD_LETTER_FILTER_SHAPE),
  queue: text(),
  type: text(),
  limit,
})

export const BULK_ACTION_ROUTES: readonly Route[] = [
  ...BULK_ACTIONS.map((action): Route => ({
    method: 'POST',
    path: `/ojs/v1/jobs/bulk/${action}`,
    tag: 'jobs',
    summary: `${action} many jobs, by ids or by filter; each stands or falls alone, unless atomicity says otherwise`,
    body: { shape: APPLICATION_SHAPE },
    answers: {
      200: 'All of them',
      207: 'Some; the others are listed as skipped, with the reason',
      413: 'More ids than one request may bring',
      422: 'None of them',
    },
    handle: (call) => forApplications(call, action),
  })),
  ...BULK_ACTIONS.map((action): Route => ({
    method: 'POST',
    path: `/ojs/v1/admin/jobs/bulk/${action}`,
    tag: 'admin',
    summary: `${action} many jobs, by ids or filter; needs confirm: true`,
    body: { shape: ADMIN_SHAPE },
    handle: (call) => forAdministrators(call, action),
  })),
  {
    method: 'POST',
    path: '/ojs/v1/dead-letter/retry',
    aliases: ['POST /ojs/v1/admin/dead-letter/retry'],
    tag: 'dead letter',
    summary: 'Retry many, by ids or filter; without either, all',
    body: { shape: DEAD_LETTER_SHAPE, optional: true },
    handle: (call) => withDeadLetters(call, 'retry'),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/dead-letter',
    aliases: ['DELETE /ojs/v1/admin/dead-letter'],
    tag: 'dead letter',
    summary: 'Remove many for good, by ids or filter; needs confirm: true',
    body: { shape: DEAD_LETTER_SHAPE },
    handle: (call) => {
      if (bodyOf(call, DEAD_LETTER_SHAPE).confirm !== true) throw unconfirmed()
      return withDeadLetters(call, 'delete')
    },
  },
]

const unconfirmed = (): OjsError => badField('confirm', 'Bulk actions need "confirm": true.')

async function forApplications(call: Call, action: BulkAction): Promise<Answer> {
  const read = bodyOf(call, APPLICATION_SHAPE)
  const { allowed, byDefault } = FOR_APPLICATIONS[action]
  if ((read.job_ids === undefined) === (read.filter === undefined))
    throw badField('job_ids', 'Name the jobs with job_ids or with filter, one of them.')
  if (read.idempotency_key !== undefined || call.request.headers['idempotency-key'] !== undefined) {
    throw new OjsError('unsupported', 'Idempotency keys are not supported by this server.', {
      details: { field: 'idempotency_key' },
      hint: 'Send it again: what is done already is skipped.',
    })
  }
  const named = read.job_ids ?? []
  if (named.length > MOST_IN_BULK) {
    throw new OjsError(
      'payload_too_large',
      `${String(named.length)} jobs are more than the ${String(MOST_IN_BULK)} that one request may name.`,
      { details: { field: 'job_ids', max_batch_size: MOST_IN_BULK }, hint: 'Name them in several requests.' },
    )
  }
  const isAtomic = read.atomicity === 'atomic'
  if (isAtomic && read.filter !== undefined)
    throw badField('atomicity', 'All or none is only for jobs that are named with job_ids.')
  const rules = { states: allowed, tenant: tenantOf(call) }
  const done = isAtomic
    ? await actOnAll(call.engine, action, named, rules)
    : read.filter === undefined
      ? await actOnEach(call.engine, action, named, rules)
      : await byFilter(call, action, readBulkFilter(read.filter, byDefault), read.limit, allowed)
  const skipped = done.filter(({ outcome }) => !outcome.ok).length
  return {
    status: skipped === 0 ? 200 : skipped === done.length ? 422 : 207,
    headers: { 'X-OJS-Batch-Size': String(done.length) },
    body: JSON.stringify({
      total_matched: done.length,
      [DONE[action]]: done.length - skipped,
      skipped,
      items: done.slice(0, MOST_LISTED).map(({ id, outcome }, index) => ({
        index,
        job_id: id,
        status: outcome.ok ? DONE[action] : 'skipped',
        ...(outcome.ok ? {} : { reason: outcome.error.message, code: outcome.error.code }),
      })),
      ...(done.length > MOST_LISTED ? { x_items_omitted: done.length - MOST_LISTED } : {}),
    }),
  }
}

async function forAdministrators(call: Call, action: BulkAction): Promise<Answer> {
  const read = bodyOf(call, ADMIN_SHAPE)
  if (read.confirm !== true) throw unconfirmed()
  const { allowed, byDefault } = FOR_ADMINISTRATORS[action]
  if (read.job_ids === undefined && read.filter === undefined)
    throw badField('filter', 'Name the jobs with job_ids or filter.')
  const done =
    read.job_ids === undefined
      ? await byFilter(call, action, readBulkFilter(read.filter, byDefault), read.limit, allowed)
      : await actOnEach(call.engine, action, read.job_ids, { states: allowed, tenant: tenantOf(call) })
  return { body: JSON.stringify(summary(action, done)) }
}

async function withDeadLetters(call: Call, action: 'retry' | 'delete'): Promise<Answer> {
  const read = bodyOf(call, DEAD_LETTER_SHAPE)
  const sent = read.filter === undefined ? {} : anyObject().read(read.filter, 'filter')
  const filter = readDeadLetterFilter({ queue: read.queue, type: read.type, ...sent })
  const rules = { states: ['discarded'] as const, tenant: tenantOf(call), deadOnly: true }
  const done =
    read.job_ids === undefined
      ? await byFilter(call, action, filter, read.limit, rules.states)
      : await actOnEach(call.engine, action, read.job_ids, rules)
  const counted = summary(action, done)
  return { body: JSON.stringify({ ...counted, [DONE[action]]: counted.succeeded }) }
}

function byFilter(
  call: Call,
  action: BulkAction,
  filter: BulkFilter,
  most: number | undefined,
  states: readonly JobState[],
): Promise<BulkDone[]> {
  const rules = { states, tenant: tenantOf(call), deadOnly: filter.deadOnly }
  return actOnMatching(call.engine, action, filter, most ?? MOST_BY_FILTER, rules, call.request.signal)
}

function summary(action: BulkAction, done: readonly BulkDone[]): { succeeded: number } & Record<string, unknown> {
  const errors = done.flatMap(({ id, outcome }) =>
    outcome.ok ? [] : [{ job_id: id, code: outcome.error.code, error: outcome.error.message }],
  )
  return {
    action,
    matched: done.length,
    succeeded: done.length - errors.length,
    failed: errors.length,
    errors: errors.slice(0, MOST_LISTED),
  }
}
