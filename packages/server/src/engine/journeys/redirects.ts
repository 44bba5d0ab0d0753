/**
 * Where an answer sends its caller next. Each hop is a call of its own, so the answering server may send a run anywhere, but
 * never past the guard of the private network, which looks at every call.
 *
 * Methods change as in browsers (Fetch §4.4): 303 becomes a GET, and so does a POST after 301 and 302. What proves who is
 * calling does not go along to another origin, and does not come back.
 */
import type { PreparedCall } from '@curfew/core'
import { CallRefused, type OutgoingAnswer } from '../outgoing.ts'

export const MAX_REDIRECTS = 5

const CREDENTIALS = /auth|cookie|token|secret|key|password|credential|session|signature/i
const OF_THE_BODY = /^content-/i

/** Null: the answer is the last word. */
export function redirected(call: PreparedCall, { status, headers }: OutgoingAnswer): PreparedCall | null {
  const location = headers['location']
  if (location === undefined || ![301, 302, 303, 307, 308].includes(status)) return null
  if (!URL.canParse(location, call.url)) throw new CallRefused('a redirect leads to a URL that cannot be read')
  const to = new URL(location, call.url)
  if (to.protocol !== 'http:' && to.protocol !== 'https:')
    throw new CallRefused('a redirect leads to something that is neither http nor https')
  const isStranger = to.origin !== new URL(call.url).origin
  const asksAnew = (status === 303 && call.method !== 'HEAD') || (status <= 302 && call.method === 'POST')
  const kept = Object.entries(call.headers).filter(
    ([name]) => !(isStranger && isCredential(name)) && !(asksAnew && OF_THE_BODY.test(name)),
  )
  return {
    method: asksAnew ? 'GET' : call.method,
    url: to.href,
    headers: Object.fromEntries(kept),
    body: asksAnew ? null : call.body,
  }
}

const isCredential = (name: string): boolean => CREDENTIALS.test(name) && name.toLowerCase() !== 'idempotency-key'
