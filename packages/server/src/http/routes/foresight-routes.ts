/** What will end in the next minutes, by deadline. */
import { iso, QUEUE_SHAPE, whole } from '@curfew/core'
import { forecast, MAX_MINUTES } from '../../engine/series/forecast.ts'
import { JSON_MEDIA } from '../api/message.ts'
import { queryOf, type Route } from '../api/route.ts'

const QUERY = { minutes: whole(1, MAX_MINUTES), queue: QUEUE_SHAPE } as const

export const FORESIGHT_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/board/forecast',
    tag: 'board',
    summary: 'Deadlines of the next minutes by kind and queue, and which of them will be missed at the observed pace',
    query: QUERY,
    handle: async (call) => {
      const { minutes = 15, queue = null } = queryOf(call, QUERY)
      const made = await forecast(call.engine, queue, minutes)
      return {
        media: JSON_MEDIA,
        body: JSON.stringify({
          ...made.forecast,
          to: iso(made.to),
          examined: made.examined,
          looked_until: iso(made.until),
          complete: made.isWhole,
          computed_at: iso(call.engine.now()),
        }),
      }
    },
  },
]
