/**
 * What people look at without the rights to more is shown without the values of some members (`--board-redact`): in every
 * answer to a session of the board, to a token that may only read, and, on a server without tokens, to a browser. One
 * place for all routes, so that a new one cannot forget it.
 */
import { roleBits, ROLES, type Job, type Redaction } from '@curfew/core'
import type { Caller } from '../../engine/access/caller.ts'
import { nextTurn, type Turning } from '../../engine/kernel/turns.ts'
import type { Answer, HttpRequest } from './message.ts'
import type { Route } from './route.ts'

/** So many characters are looked through in one turn. */
const CHARS_A_TURN = 128 * 1024
const MORE_THAN_READ = roleBits(ROLES) & ~roleBits(['read'])

/** Nothing that clients sent is in these, and a token is shown once. */
const EXEMPT = new Set(['/api/v1/tokens', '/api/v1/session', '/openapi.json'])

export function mustRedact({ path }: Pick<Route, 'path'>, { via, bits }: Caller, { headers }: HttpRequest): boolean {
  if (EXEMPT.has(path)) return false
  if (via === 'session') return true
  // Browsers say from where a call comes; programs do not.
  if (via === 'open') return headers['sec-fetch-site'] !== undefined
  return (bits & MORE_THAN_READ) === 0
}

const SHOWN = /json|event-stream/

/** Only JSON and streams of it hold what clients sent; pages are made from what was blanked before (`redactedJob`). */
export async function redactedAnswer(
  host: Turning,
  redaction: Redaction,
  answering: Answer | Promise<Answer>,
): Promise<Answer> {
  const answer = await answering
  if (answer.isBytes === true || (answer.media !== undefined && !SHOWN.test(answer.media))) return answer
  const { body } = answer
  return {
    ...answer,
    body: typeof body === 'string' ? await redactedText(host, redaction, body) : redactedStream(redaction, body),
  }
}

async function redactedText(host: Turning, redaction: Redaction, text: string): Promise<string> {
  const parts = redaction.begin()
  let shown = ''
  for (let from = 0; from < text.length; from += CHARS_A_TURN) {
    if (from > 0) await nextTurn(host)
    shown += parts.next(text.slice(from, from + CHARS_A_TURN))
  }
  return shown
}

async function* redactedStream(redaction: Redaction, stream: AsyncIterable<string>): AsyncIterable<string> {
  const parts = redaction.begin()
  for await (const text of stream) yield parts.next(text)
}

/** A job whose texts are put into words, or sent as they are stored. The body is not: it is JSON within JSON. */
export function redactedJob(redaction: Redaction, job: Job): Job {
  const shown = (text: string): string => redaction.text(text)
  return {
    ...job,
    body: redaction.text(`{${job.body}}`).slice(1, -1),
    error: job.error === null ? null : shown(job.error),
    errors: shown(job.errors),
    result: job.result === null ? null : shown(job.result),
  }
}
