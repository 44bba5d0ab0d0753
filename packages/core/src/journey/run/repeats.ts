/**
 * Starts that can be repeated. A caller that does not know whether its start arrived sends it again, with the same
 * Idempotency-Key or the same id for the run, and is answered with the run that there is. What was asked for is kept with
 * the run as a hash, so that another start under the same key or id is refused and not taken for the first.
 *
 * A key belongs to one journey, is stored in the transaction that stores its run, and goes with it.
 */
import { docKind } from '../../doc.ts'
import { badField, OjsError } from '../../errors.ts'
import { isUuidV7 } from '../../ids.ts'
import type { Data, Run } from './run.ts'
import type { Parent } from '../../job/job.ts'
import { canonical } from '../../wire/json/canonical.ts'

/** The run that was started with a key; its document is `<journey>/<hash of the key>`. */
export const START_KEY = docKind<{ readonly run: string }>('start-key')

/** How a run was started, where that can be repeated. */
export interface RunStart {
  /** The document of its key. */
  readonly key: string | null
  /** The hash of what was asked for. */
  readonly print: string
}

const MAX_KEY_LENGTH = 255
/** In the body of a start: the id its run is to have. It does not become part of the context. */
export const OWN_ID = 'x_journey_id'

/** Null: the header was not sent. */
export function readIdempotencyKey(header: string | undefined): string | null {
  if (header === undefined) return null
  if (header.length > MAX_KEY_LENGTH || !/^[\x20-\x7e]*[\x21-\x7e][\x20-\x7e]*$/.test(header))
    throw badField(
      'Idempotency-Key',
      `Idempotency-Key must be 1 to ${String(MAX_KEY_LENGTH)} printable ASCII characters, such as a UUID.`,
    )
  return header
}

/** The context that a body asks for, and the id for the run, if it has one. */
export function takeOwnId(body: Data): { readonly context: Data; readonly ownId: string | null } {
  if (!Object.hasOwn(body, OWN_ID)) return { context: body, ownId: null }
  const { [OWN_ID]: ownId, ...context } = body
  if (typeof ownId !== 'string' || !isUuidV7(ownId))
    throw badField(OWN_ID, `${OWN_ID} must be a UUIDv7 in lower case; leave it out to be given one.`)
  return { context, ownId }
}

export interface Asked {
  readonly name: string
  /** As it was asked for; null: the one in force. */
  readonly version: string | null
  readonly ownId: string | null
  readonly parent: Parent | null
  readonly inheritDeadline: boolean
  readonly context: Data
}

/** The text of what was asked for: the same for the same start, however it was written. */
export function startText({ name, version, ownId, parent, inheritDeadline, context }: Asked): string {
  return canonical(JSON.stringify({ name, version, ownId, parent, inheritDeadline, context }))
}

/** The run is the one that this start has begun before; otherwise the start is refused. */
export function checkRepeat(run: Run, asked: { readonly key: string | null; readonly print: string }): void {
  if (run.start?.print === asked.print) return
  const { id: journeyId } = run
  if (asked.key === null)
    throw new OjsError('conflict', `There is a run with the id ${journeyId} already, and it was started otherwise.`, {
      details: { reason: 'journey_exists', journeyId },
      hint: 'Give the run another id. A start that is repeated must be the same: journey, version, parent and body.',
    })
  throw new OjsError('conflict', 'The Idempotency-Key was used for another start of this journey.', {
    details: { reason: 'idempotency_key_reused', idempotencyKey: asked.key, journeyId },
    hint: 'Use another key. A start that is repeated must be the same: version, parent and body.',
  })
}
