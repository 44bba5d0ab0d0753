/** One job as an answer. */
import type { Fragment, Json } from '@curfew/core'

/**
 * A job under `job`, as the HTTP binding has it, and its fields once more beside it, where two official SDKs look for
 * them. It is rendered once and written twice. `job` comes last: of two members with one name, parsers keep the last,
 * so a field of the client that is called `job` does not hide it. `more` stands beside the fields only.
 */
export function jobAnswer(job: Json, more: Fragment = ''): Json {
  return `${job.slice(0, -1)}${more === '' ? '' : `,${more}`},"job":${job}}`
}
