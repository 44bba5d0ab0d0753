/** Bulk enqueue: many jobs in one request and one transaction, each standing or falling alone (OJS bulk operations §5). */
import {
  anything,
  ENQUEUE_SHAPE,
  FEW_FIELDS,
  list,
  MAX_VALUES_OF_MANY,
  MAX_IN_BULK,
  nearMissWarnings,
  object,
  OjsError,
  oneOf,
  readBulk,
  renderJob,
  ruled,
  text,
  type EnqueueRequest,
  type Json,
  type Shape,
} from '@curfew/core'
import type { Enqueued } from '../../engine/jobs/admission.ts'
import type { Outcome } from '../../engine/kernel/command.ts'
import { enqueueEach } from '../../engine/jobs/enqueue.ts'
import { inPieces, inTurns } from '../../engine/kernel/turns.ts'
import { errorView } from '../api/errors.ts'
import { arrayOf, objectOf } from '../api/message.ts'
import { MINIMAL_APPLIED, minimalJob, prefersMinimal } from '../api/prefer.ts'
import { bodyOf, tenantOf, type Call, type Route } from '../api/route.ts'

/** Known to the specification, and refused by this server whatever it is. */
export const NOT_OFFERED: Shape<string> = {
  json: { type: 'null', description: 'Not supported by this server' },
  read: (value, at, refuse) => text().read(value, at, refuse),
}
const FIELDS = { atomicity: oneOf('partial', 'atomic'), idempotency_key: NOT_OFFERED } as const
/** An entry of another form is refused by itself, as one of the items. */
const ENTRY_SHAPE: Shape<unknown> = {
  json: { anyOf: [ENQUEUE_SHAPE.json, { description: 'Refused, when no other status fits' }] },
  read: (value) => value,
}
const BULK_SHAPE = ruled(
  object({ jobs: list(ENTRY_SHAPE, 1, MAX_IN_BULK), ...FIELDS, atomicity: oneOf('partial') }, { required: ['jobs'] }),
  FEW_FIELDS,
)
/** A job of the wrong form is refused by itself. */
const ENVELOPE_SHAPE = object({ jobs: anything(), ...FIELDS })

export const BULK_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/jobs/bulk',
    tag: 'jobs',
    summary: 'Enqueue many independent jobs: each is enqueued or refused on its own',
    body: { shape: BULK_SHAPE, maxValues: MAX_VALUES_OF_MANY },
    prefersReturn: true,
    answers: {
      200: 'All were enqueued; the items are in the order of the request',
      207: 'Some were enqueued, some refused',
      413: 'More jobs than one request may bring',
      422: 'All were refused',
    },
    handle: async (call) => {
      refuseWhatIsNotOffered(call)
      const { host, settings } = call.engine
      const reading = readBulk(call.text, call.json, call.engine.now(), tenantOf(call), settings.strict)
      const read = inPieces(host, reading)
      const { entries, nearMisses } = read instanceof Promise ? await read : read
      const warnings = nearMissWarnings(nearMisses)
      const requests = entries.filter((entry): entry is EnqueueRequest => !(entry instanceof OjsError))
      const outcomes = requests.length === 0 ? [] : await enqueueEach(call.engine, requests)
      const all = inOrder(entries, outcomes)
      const succeeded = all.filter(({ ok }) => ok).length
      const isMinimal = prefersMinimal(call)
      return {
        status: succeeded === all.length ? 200 : succeeded === 0 ? 422 : 207,
        headers: { 'X-OJS-Batch-Size': String(all.length), ...(isMinimal ? MINIMAL_APPLIED : {}) },
        body: objectOf({
          total: String(all.length),
          succeeded: String(succeeded),
          failed: String(all.length - succeeded),
          items: arrayOf(
            await inTurns(host, all, (outcome, index) => itemView(outcome, index, call.requestId, isMinimal)),
          ),
          x_warnings: warnings.length === 0 ? undefined : JSON.stringify(warnings),
        }),
      }
    },
  },
]

/** Refused rather than ignored: who asks for it relies on it. */
function refuseWhatIsNotOffered(call: Call): void {
  const read = bodyOf(call, ENVELOPE_SHAPE)
  if (read.atomicity === 'atomic') {
    throw new OjsError('unsupported', 'In a bulk enqueue each job is enqueued or refused on its own.', {
      details: { field: 'atomicity' },
      hint: 'POST /ojs/v1/jobs/batch enqueues all or none.',
    })
  }
  if (read.idempotency_key !== undefined || call.request.headers['idempotency-key'] !== undefined) {
    throw new OjsError('unsupported', 'Idempotency keys are not supported by this server.', {
      details: { field: 'idempotency_key' },
      hint: 'Give each job an id of your own: one that exists already is refused as a duplicate.',
    })
  }
}

/** What became of every entry: those that were requests have an outcome each, in their order. */
function inOrder(
  entries: readonly (EnqueueRequest | OjsError)[],
  outcomes: readonly Outcome<Enqueued>[],
): readonly Outcome<Enqueued>[] {
  const decided = outcomes.values()
  return entries.map((entry) => {
    if (entry instanceof OjsError) return { ok: false, error: entry }
    return decided.next().value ?? { ok: false, error: new OjsError('internal_error', 'The job was not processed.') }
  })
}

function itemView(outcome: Outcome<Enqueued>, index: number, requestId: string, isMinimal: boolean): Json {
  return objectOf({
    index: String(index),
    status: !outcome.ok ? '"failed"' : outcome.value.deduplicated ? '"existing"' : '"created"',
    deduplicated: outcome.ok && outcome.value.deduplicated ? 'true' : undefined,
    job: outcome.ok ? (isMinimal ? minimalJob : renderJob)(outcome.value.job) : undefined,
    error: outcome.ok ? undefined : JSON.stringify(errorView(outcome.error, requestId)),
  })
}
