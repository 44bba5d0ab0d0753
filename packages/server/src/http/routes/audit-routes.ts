/** What operators and administrators changed, newest first. */
import { iso, OPERATOR_ACTION, readDoc, text, type Doc, type OperatorAction } from '@curfew/core'
import { JSON_MEDIA } from '../api/message.ts'
import { upTo } from '../api/query.ts'
import { queryOf, type Route } from '../api/route.ts'

const QUERY = { limit: upTo(1, 200), cursor: text({ maxLength: 64 }) } as const

function view(doc: Doc): object {
  const { at, token, via, action, method, path, object, requestId } = readDoc<OperatorAction>(doc)
  return { id: doc.id, time: iso(at), token, via, action, method, path, object, request_id: requestId }
}

export const AUDIT_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/audit',
    tag: 'access',
    summary:
      'Changes by operators and administrators, newest first: which token, what, when, on which object; kept 90 days',
    query: QUERY,
    handle: async (call) => {
      const { limit = 50, cursor = null } = queryOf(call, QUERY)
      const docs = await call.engine.look((reads) => reads.docsBelow(OPERATOR_ACTION.kind, cursor, limit))
      const next = docs.length === limit ? (docs.at(-1)?.id ?? null) : null
      return { media: JSON_MEDIA, body: JSON.stringify({ items: docs.map(view), next_cursor: next }) }
    },
  },
]
