/**
 * A job that is enqueued if, and only if, the application's own transaction commits. One statement lays the request into
 * the inbox of a Curfew that keeps its data in the same PostgreSQL, and tells its servers; both happen at the commit. No
 * driver comes along: anything that sends a statement with its values will do.
 *
 * What the server refuses later, it could only refuse after the commit. So the request is read here first, by the very
 * rules the server reads it with.
 */
import { instant, MAX_BODY_BYTES, OjsError, parseBody, readEnqueue, uuidV7 } from '@curfew/core'
import type { Job } from '../job/define-job.ts'
import { toWire, type EnqueueOptions } from '../job/enqueue-options.ts'
import { InputError } from '../errors.ts'
import { nodeHost, systemRandom } from '../host.ts'

/** A client of `pg` inside a transaction, or whatever has the same `query`. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<unknown>
}

export interface TransactionOptions extends Omit<EnqueueOptions, 'signal'> {
  /** The schema Curfew keeps its tables in: `curfew` unless it was told otherwise. */
  readonly schema?: string
}

export async function enqueueInTransaction<Sent>(
  pg: Queryable,
  job: Job<Sent, unknown, unknown, unknown>,
  input: NoInfer<Sent>,
  options: TransactionOptions = {},
): Promise<{ readonly id: string }> {
  const { schema = 'curfew', ...enqueue } = options
  if (!/^[a-z_][a-z0-9_]{0,49}$/.test(schema)) {
    throw new InputError('The name of a schema has lower-case letters, digits and _, at most 50 of them.', {
      field: 'schema',
    })
  }
  const now = instant(nodeHost.wallMs())
  const id = options.id ?? uuidV7(now, systemRandom)
  const { json } = await toWire({ job, input, options: { ...enqueue, id } })
  if (Buffer.byteLength(json) > MAX_BODY_BYTES)
    throw new InputError(`The job is larger than ${String(MAX_BODY_BYTES)} bytes.`, {})
  try {
    readEnqueue(json, parseBody(json), now)
  } catch (error) {
    throw error instanceof OjsError ? new InputError(error.message, error.details) : error
  }
  await pg.query(statementFor(schema), [id, json, `${schema}_inbox`])
  return { id }
}

/** The channel is a value; the table has to be named. The pattern of the name leaves nothing to quote. */
function statementFor(schema: string): string {
  return (
    `WITH laid AS (INSERT INTO "${schema}".inbox (id, body) VALUES ($1::text, $2::text)) ` +
    `SELECT pg_notify($3::text, '')`
  )
}
