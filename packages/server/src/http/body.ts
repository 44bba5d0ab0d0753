/** Bodies: JSON as it comes in, sent as one of the media types we speak. */
import { OjsError, parseBody } from '@curfew/core'
import { JSON_MEDIA, OJS_MEDIA, type HttpRequest } from './message.ts'

const ACCEPTED_MEDIA = [OJS_MEDIA, JSON_MEDIA]

function isAccepted(type: string): boolean {
  if (ACCEPTED_MEDIA.includes(type)) return true
  const media = type.split(';')[0]?.trim().toLowerCase() ?? ''
  return media === '' || ACCEPTED_MEDIA.includes(media)
}

/** Undefined for a body that may be left out and was. */
export function parseJson(body: string, headers: HttpRequest['headers'], optional: boolean): unknown {
  if (body.trim() === '') {
    if (optional) return undefined
    throw new OjsError('invalid_payload', 'The body is empty; this call needs a JSON body.')
  }
  if (!isAccepted(headers['content-type'] ?? '')) {
    throw new OjsError('invalid_request', `Send the body as ${ACCEPTED_MEDIA.join(' or ')}.`, {
      details: { header: 'Content-Type' },
    })
  }
  return parseBody(body)
}
