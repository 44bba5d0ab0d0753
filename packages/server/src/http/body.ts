/** Bodies: JSON as it comes in, sent as one of the media types we speak. */
import { OjsError, parseBody } from '@curfew/core'
import { JSON_MEDIA, OJS_MEDIA, type HttpRequest } from './message.ts'
import type { Route } from './route.ts'

const ACCEPTED_MEDIA = [OJS_MEDIA, JSON_MEDIA]

function checkMedia({ 'content-type': type = '' }: HttpRequest['headers'], accepted: readonly string[]): void {
  if (accepted.includes(type)) return
  const media = type.split(';')[0]?.trim().toLowerCase() ?? ''
  if (media === '' || accepted.includes(media)) return
  throw new OjsError('invalid_request', `Send the body as ${accepted.join(' or ')}.`, {
    details: { header: 'Content-Type' },
  })
}

/** The body of a call, parsed; undefined where it is taken as text, or may be left out and was. */
export function bodyIn({ body, headers }: HttpRequest, route: Route): unknown {
  if (route.body?.media === undefined) return parseJson(body, headers, route.body?.optional === true)
  checkMedia(headers, route.body.media)
  return undefined
}

/** Undefined for a body that may be left out and was. */
export function parseJson(body: string, headers: HttpRequest['headers'], optional: boolean): unknown {
  if (body.trim() === '') {
    if (optional) return undefined
    throw new OjsError('invalid_payload', 'The body is empty; this call needs a JSON body.')
  }
  checkMedia(headers, ACCEPTED_MEDIA)
  return parseBody(body)
}
