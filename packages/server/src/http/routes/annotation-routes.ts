/** Notes of operators with their time, such as deploys. */
import { after, ANNOTATION_SHAPE, annotationView, badField, MAX_ANNOTATION_LEAD_MS, text } from '@curfew/core'
import { annotate, annotations } from '../../engine/access/annotations.ts'
import { JSON_MEDIA } from '../api/message.ts'
import { upTo } from '../api/query.ts'
import { bodyOf, queryOf, type Route } from '../api/route.ts'

const QUERY = { limit: upTo(1, 200), cursor: text({ maxLength: 64 }) } as const

export const ANNOTATION_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/annotations',
    tag: 'board',
    summary: 'Notes of operators, such as deploys, by the time of what happened, newest first; kept 90 days',
    query: QUERY,
    handle: async (call) => {
      const { limit = 50, cursor = null } = queryOf(call, QUERY)
      const found = await annotations(call.engine, cursor, limit)
      const items = found.map(({ id, annotation }) => annotationView(id, annotation))
      const next = found.length === limit ? (found.at(-1)?.id ?? null) : null
      return { media: JSON_MEDIA, body: JSON.stringify({ items, next_cursor: next }) }
    },
  },
  {
    method: 'POST',
    path: '/api/v1/annotations',
    tag: 'board',
    summary: 'Note that something happened, such as a deploy; at is now, if it is left out',
    body: { shape: ANNOTATION_SHAPE },
    answers: { 201: 'Noted' },
    handle: async (call) => {
      const { text: words, at = null } = bodyOf(call, ANNOTATION_SHAPE)
      if (at !== null && at > after(call.engine.now(), MAX_ANNOTATION_LEAD_MS))
        throw badField('at', 'at must not lie in the future.')
      const { id, annotation } = await annotate(call.engine, { at, text: words, by: call.caller.name })
      return { status: 201, media: JSON_MEDIA, body: JSON.stringify(annotationView(id, annotation)) }
    },
  },
]
