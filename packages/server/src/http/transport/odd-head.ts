/** Heads that `node:http` lets pass, but that servers and proxies understand in more than one way. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { OjsError } from '@curfew/core'
import { refusal } from '../api/errors.ts'
import { OJS_MEDIA, type HttpResponse } from '../api/message.ts'

/** What to answer to a head that is refused as it is; null for all others. */
export function refusedHead({ httpVersion, rawHeaders }: IncomingMessage): HttpResponse | null {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    const message = `This server speaks HTTP/1.1, not HTTP/${httpVersion}.`
    return refused(new OjsError('invalid_request', message, { hint: 'Send the request as HTTP/1.1.' }), 505)
  }
  const hosts = rawHeaders.filter((name, place) => place % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts < 2) return null
  return refused(
    new OjsError('invalid_request', 'The request has more than one Host.', { details: { header: 'Host' } }),
  )
}

/** The application does not see this call: what every answer has is added here. */
function refused(error: OjsError, as?: number): HttpResponse {
  const requestId = `req_${randomUUID()}`
  const { status = 500, headers = {}, body } = refusal(error, requestId, false)
  const always = { 'Content-Type': OJS_MEDIA, 'OJS-Version': '1.0', 'X-Request-Id': requestId, Connection: 'close' }
  return { status: as ?? status, headers: { ...always, ...headers }, body }
}
