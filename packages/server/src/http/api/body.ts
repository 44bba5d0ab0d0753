/** Bodies: JSON in one of the accepted media types. */
import { MAX_PIECE, OjsError, parseBody, parseInPieces } from '@curfew/core'
import { inPieces, type Turning } from '../../engine/kernel/turns.ts'
import { JSON_MEDIA, OJS_MEDIA, type HttpRequest } from './message.ts'
import type { Route } from './route.ts'

const ACCEPTED_MEDIA = [OJS_MEDIA, JSON_MEDIA]

function checkMedia({ host, 'content-type': type }: HttpRequest['headers'], accepted: readonly string[]): void {
  if (type !== undefined && accepted.includes(type)) return
  // A web page may send a body without a type to any server. Calls in the same process have no Host (origin.ts).
  if (type === undefined && host === undefined) return
  const media = type?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (accepted.includes(media)) return
  const known = accepted.includes(JSON_MEDIA) ? JSON_MEDIA : (accepted[0] ?? JSON_MEDIA)
  throw new OjsError('invalid_request', `Send the body as ${accepted.join(' or ')}.`, {
    details: { header: 'Content-Type' },
    ...(media === '' ? { hint: `Say what the body is, such as "Content-Type: ${known}".` } : {}),
  })
}

/** A body that no route looks at has to say what it is as well: a web page may send one to any path. */
export function checkUnread({ method, headers }: Pick<HttpRequest, 'method' | 'headers'>): void {
  if (method !== 'GET' && method !== 'HEAD') checkMedia(headers, ACCEPTED_MEDIA)
}

/** The body of a call, parsed; undefined where it is taken as text, or may be left out and was. */
export function bodyIn(host: Turning, body: string, headers: HttpRequest['headers'], route: Route): unknown {
  const { media, optional, maxValues } = route.body ?? {}
  if (media === undefined) return parseJson(host, body, headers, optional === true, maxValues)
  if (body !== '' || headers['content-type'] !== undefined) checkMedia(headers, media)
  return undefined
}

/** Undefined for a body that may be left out and was; a promise for one so long that it is parsed in turns. */
export function parseJson(
  host: Turning,
  body: string,
  headers: HttpRequest['headers'],
  optional: boolean,
  maxValues?: number,
): unknown {
  if (isBlank(body)) {
    if (optional) return undefined
    throw new OjsError('invalid_payload', 'The body is empty; this call needs a JSON body.')
  }
  checkMedia(headers, ACCEPTED_MEDIA)
  if (body.length <= MAX_PIECE) return parseBody(body)
  return inPieces(host, parseInPieces(body, maxValues))
}

/** A long text is not blank; if it is, parsing it fails. */
const isBlank = (body: string): boolean => body.length <= MAX_PIECE && body.trim() === ''
