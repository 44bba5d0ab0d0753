/**
 * The inbox: jobs that applications have laid into the database within transactions of their own. Each is admitted as an
 * enqueue of this very moment, and leaves the inbox in the same transaction. One that cannot be admitted is laid aside
 * with the reason, and hinders no other; one whose job is there already has been admitted before.
 */
import {
  EnqueueMemory,
  MAX_BODY_BYTES,
  OjsError,
  parseBody,
  readEnqueue,
  type EnqueueRequest,
  type Instant,
  type Job,
} from '@curfew/core'
import { RowsMoved, StoreUnavailable } from '../../store/store.ts'
import { decideEach, needsOf, type Command } from '../kernel/command.ts'
import type { JobsContext } from '../jobs/context.ts'
import { enqueue } from '../jobs/enqueue.ts'
import type { Laid } from '../kernel/needs.ts'
import type { Unit } from '../kernel/unit.ts'

/** No transaction takes more: others want their turn. */
const MAX_AT_ONCE = 100

export async function admitFromInbox(context: JobsContext, unit: Unit): Promise<void> {
  const laid = await unit.lookIntoInbox(MAX_AT_ONCE, MAX_BODY_BYTES)
  if (laid.length === 0) return
  const memory = new EnqueueMemory()
  const parts = laid.map((entry) => admission(context, requestIn(entry, unit.now, memory), entry))
  await unit.load(needsOf(parts))
  const outcomes = await decideEach(unit, parts)
  for (const [index, { id }] of laid.entries()) {
    const outcome = outcomes[index]
    unit.takeFromInbox(id, outcome === undefined || outcome.ok ? null : outcome.error)
  }
}

/** Null: its job is there already. */
function admission(context: JobsContext, request: EnqueueRequest | OjsError, entry: Laid): Command<Job | null> {
  if (request instanceof OjsError) {
    return {
      name: 'inbox',
      run: () => {
        throw request
      },
    }
  }
  const command = enqueue(context, request, {}, 'inbox')
  return {
    name: 'inbox',
    needs: command.needs ?? {},
    run: async (unit) => {
      if (unit.job(entry.id) !== null) return null
      try {
        return (await command.run(unit)).job
      } catch (error) {
        throw isForeseen(error) ? error : unforeseen(error)
      }
    },
  }
}

function requestIn({ id, body }: Laid, now: Instant, memory: EnqueueMemory): EnqueueRequest | OjsError {
  try {
    if (body === null)
      throw new OjsError('payload_too_large', `The body is larger than ${String(MAX_BODY_BYTES)} bytes.`)
    const request = readEnqueue(body, parseBody(body), now, null, false, memory)
    if (request.id === id) return request
    return new OjsError('invalid_request', 'The id in the body must be that of the row.', { details: { field: 'id' } })
  } catch (error) {
    return error instanceof OjsError ? error : unforeseen(error)
  }
}

/** The errors that a group commit answers. */
const isForeseen = (error: unknown): boolean =>
  error instanceof OjsError || error instanceof RowsMoved || error instanceof StoreUnavailable

/** A row that breaks what should not break must not stand in the way of all that lie behind it. */
const unforeseen = (error: unknown): OjsError =>
  new OjsError('internal_error', 'Something went wrong inside the server.', { cause: error })
