/**
 * Cancel, retry and delete of many jobs: for applications (OJS bulk operations §6-8), for administrators (admin API §8),
 * and for the dead-letter list (dead letter §6.2). The same action, in three forms.
 */
import {
  anyObject,
  badField,
  DEAD_LETTER_FILTER_SHAPE,
  flag,
  JOB_FILTER_SHAPE,
  list,
  meansAll,
  MAX_IN_BULK,
  named,
  object,
  OjsError,
  oneNotNull,
  oneOf,
  QUEUE_SHAPE,
  readDeadLetterFilter,
  readJobFilter,
  ruled,
  text,
  TYPE_SHAPE,
  whole,
  type Fields,
  type JobFilter,
  type JobState,
  type Shape,
} from '@curfew/core'
import {
  actOnAll,
  actOnEach,
  actOnMatching,
  BULK_ACTIONS,
  tryEach,
  tryMatching,
  type BulkAction,
  type BulkDone,
  type DryRun,
  type Rules,
} from '../../engine/jobs/bulk.ts'
import { NOT_OFFERED } from './bulk-routes.ts'
import type { Answer } from '../api/message.ts'
import { bodyOf, tenantOf, type Call, type Route } from '../api/route.ts'

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
const MAX_LISTED = 1_000
const MAX_BY_FILTER = 1_000_000

/** Described here, and read when it is known what a filter means that names no state. */
const later = ({ json }: Shape<unknown>): Shape<unknown> => ({ json, read: (value) => value })

const ids = list(text(), 0, 10_000)
/** More than this is a 413, which names the number. */
const namedIds: Shape<readonly string[]> = {
  json: list(text(), 1, MAX_IN_BULK).json,
  read: (value, at, refuse) => list(text(), 1, Infinity).read(value, at, refuse),
}
const BY_IDS = { required: ['job_ids'], properties: { job_ids: { type: 'array' }, filter: { type: 'null' } } }
const BY_FILTER = { required: ['filter'], properties: { filter: { type: 'object' }, job_ids: { type: 'null' } } }
/** A dry run needs no confirmation. */
const CONFIRMED = {
  anyOf: [
    { required: ['confirm'], properties: { confirm: { const: true } } },
    { required: ['dry_run'], properties: { dry_run: { const: true } } },
  ],
}
const limit = whole(1, MAX_BY_FILTER)
/** `confirm`: everything is meant. `dry_run`: say what would be done, and do nothing. */
const SAFETY = { confirm: flag(), dry_run: flag() } as const
/** `dryRun` would act on everything it was to show. */
const NO_OTHERS = { unknown: 'refuse' } as const
const APPLICATION_SHAPE = ruled(
  object(
    {
      ...SAFETY,
      job_ids: namedIds,
      filter: later(named('JobFilter', JOB_FILTER_SHAPE)),
      atomicity: oneOf('partial', 'atomic'),
      idempotency_key: NOT_OFFERED,
      limit,
    },
    NO_OTHERS,
  ),
  {
    anyOf: [BY_IDS, { ...BY_FILTER, properties: { ...BY_FILTER.properties, atomicity: { enum: ['partial', null] } } }],
  },
)
const ADMIN_SHAPE = ruled(
  object({ ...SAFETY, job_ids: ids, filter: later(named('JobFilter', JOB_FILTER_SHAPE)), limit }, NO_OTHERS),
  { allOf: [CONFIRMED, oneNotNull('job_ids', 'filter')] },
)
const DEAD_LETTER_SHAPE = object(
  {
    ...SAFETY,
    job_ids: ids,
    filter: later(named('DeadLetterFilter', DEAD_LETTER_FILTER_SHAPE)),
    queue: QUEUE_SHAPE,
    type: TYPE_SHAPE,
    limit,
  },
  NO_OTHERS,
)
const DEAD_LETTER_DELETE_SHAPE = ruled(DEAD_LETTER_SHAPE, { allOf: [CONFIRMED] })

export const BULK_ACTION_ROUTES: readonly Route[] = [
  ...BULK_ACTIONS.map((action): Route => ({
    method: 'POST',
    path: `/ojs/v1/jobs/bulk/${action}`,
    tag: 'jobs',
    summary: `${action} many jobs, by ids or by filter; each on its own, unless atomicity says otherwise`,
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
    summary: 'Retry many, by ids or filter; all of them with confirm: true',
    body: { shape: DEAD_LETTER_SHAPE, optional: true },
    handle: (call) => withDeadLetters(call, 'retry'),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/dead-letter',
    aliases: ['DELETE /ojs/v1/admin/dead-letter'],
    tag: 'dead letter',
    summary: 'Remove many for good, by ids or filter; needs confirm: true',
    body: { shape: DEAD_LETTER_DELETE_SHAPE },
    handle: (call) => {
      const { confirm, dry_run: isTrial } = bodyOf(call, DEAD_LETTER_SHAPE)
      if (confirm !== true && isTrial !== true) throw unconfirmed()
      return withDeadLetters(call, 'delete')
    },
  },
]

const unconfirmed = (): OjsError =>
  badField('confirm', 'This bulk action needs "confirm": true, or "dry_run": true to see what it would do.')

/** A filter that names nothing means every job: that must be said. */
function refuseUnmeant(filter: JobFilter, { confirm, dry_run: isTrial }: Safety): void {
  if (confirm === true || isTrial === true || !meansAll(filter)) return
  throw badField(
    'confirm',
    'This filter is empty and means every job. Name what the jobs have in common, or send "confirm": true; ' +
      '"dry_run": true shows what would be done.',
  )
}

interface Safety {
  readonly confirm?: boolean
  readonly dry_run?: boolean
}

interface Meaning extends Rules {
  /** Instead of ids. */
  readonly filter: JobFilter | null
  readonly ids: readonly string[]
  readonly limit: number | undefined
}

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
  if (named.length > MAX_IN_BULK) {
    throw new OjsError(
      'payload_too_large',
      `${String(named.length)} jobs are more than the ${String(MAX_IN_BULK)} that one request may name.`,
      { details: { field: 'job_ids', max_batch_size: MAX_IN_BULK }, hint: 'Name them in several requests.' },
    )
  }
  const isAtomic = read.atomicity === 'atomic'
  if (isAtomic && read.filter !== undefined)
    throw badField('atomicity', 'All or none is only for jobs that are named with job_ids.')
  const filter = read.filter === undefined ? null : readJobFilter(read.filter)
  if (filter !== null) refuseUnmeant(filter, read)
  const rules = { states: allowed, tenant: tenantOf(call) }
  const meaning = { ...rules, filter: filter && withStates(filter, byDefault), ids: named, limit: read.limit }
  if (read.dry_run === true) return tried(call, action, meaning)
  const done = isAtomic ? await actOnAll(call.engine, action, named, rules) : await acted(call, action, meaning)
  const skipped = done.filter(({ outcome }) => !outcome.ok).length
  return {
    status: skipped === 0 ? 200 : skipped === done.length ? 422 : 207,
    headers: { 'X-OJS-Batch-Size': String(done.length) },
    body: JSON.stringify({
      total_matched: done.length,
      [DONE[action]]: done.length - skipped,
      skipped,
      items: done.slice(0, MAX_LISTED).map(({ id, outcome }, index) => ({
        index,
        job_id: id,
        status: outcome.ok ? DONE[action] : 'skipped',
        ...(outcome.ok ? {} : { reason: outcome.error.message, code: outcome.error.code }),
      })),
      ...(done.length > MAX_LISTED ? { x_items_omitted: done.length - MAX_LISTED } : {}),
    }),
  }
}

async function forAdministrators(call: Call, action: BulkAction): Promise<Answer> {
  const read = bodyOf(call, ADMIN_SHAPE)
  if (read.confirm !== true && read.dry_run !== true) throw unconfirmed()
  const { allowed, byDefault } = FOR_ADMINISTRATORS[action]
  if (read.job_ids === undefined && read.filter === undefined)
    throw badField('filter', 'Name the jobs with job_ids or filter.')
  // A filter beside job_ids is not used, but it has to be one.
  const filter = read.filter === undefined ? null : readJobFilter(read.filter)
  const meaning = {
    states: allowed,
    tenant: tenantOf(call),
    filter: read.job_ids === undefined ? filter && withStates(filter, byDefault) : null,
    ids: read.job_ids ?? [],
    limit: read.limit,
  }
  if (read.dry_run === true) return tried(call, action, meaning)
  return { body: JSON.stringify(summary(action, await acted(call, action, meaning))) }
}

async function withDeadLetters(call: Call, action: 'retry' | 'delete'): Promise<Answer> {
  const read = bodyOf(call, DEAD_LETTER_SHAPE)
  const sent = read.filter === undefined ? {} : anyObject().read(read.filter, 'filter')
  const filter = readDeadLetterFilter({ queue: read.queue, type: read.type, ...sent })
  if (read.job_ids === undefined) refuseUnmeant({ ...filter, states: [] }, read)
  const meaning = {
    states: ['discarded'] as const,
    tenant: tenantOf(call),
    deadOnly: true,
    filter: read.job_ids === undefined ? filter : null,
    ids: read.job_ids ?? [],
    limit: read.limit,
  }
  if (read.dry_run === true) return tried(call, action, meaning)
  const counted = summary(action, await acted(call, action, meaning))
  return { body: JSON.stringify({ ...counted, [DONE[action]]: counted.succeeded }) }
}

/** What a filter means that names no state. */
const withStates = (filter: JobFilter, byDefault: readonly JobState[]): JobFilter =>
  filter.states.length === 0 ? { ...filter, states: byDefault } : filter

function acted({ engine, request }: Call, action: BulkAction, meaning: Meaning): Promise<BulkDone[]> {
  const { filter, ids: named, limit: most = MAX_BY_FILTER, ...rules } = meaning
  return filter === null
    ? actOnEach(engine, action, named, rules)
    : actOnMatching(engine, action, filter, most, rules, request.signal)
}

async function tried({ engine, request }: Call, action: BulkAction, meaning: Meaning): Promise<Answer> {
  const { filter, ids: named, limit: most = MAX_BY_FILTER, ...rules } = meaning
  const trial =
    filter === null
      ? await tryEach(engine, named, rules)
      : await tryMatching(engine, filter, most, rules, request.signal)
  return { body: JSON.stringify(trialView(action, trial)) }
}

function trialView(action: BulkAction, { matched, skipped, byState, byQueue, ids: shown }: DryRun): Fields {
  const meant = matched - skipped
  return {
    dry_run: true,
    action,
    matched,
    total_matched: matched,
    would_act_on: meant,
    skipped,
    by_state: byState,
    by_queue: byQueue,
    job_ids: shown,
    ...(meant > shown.length ? { x_ids_omitted: meant - shown.length } : {}),
  }
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
    errors: errors.slice(0, MAX_LISTED),
  }
}
