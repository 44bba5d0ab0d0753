/** Schedules that journeys have made (`schedule:v1`): looked at, and removed. */
import { notFound, scheduleView, text } from '@curfew/core'
import { deleteSchedule, findSchedule, listSchedules } from '../../engine/journeys/schedules.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import { upTo } from '../api/query.ts'
import { param, queryOf, type Route } from '../api/route.ts'

const TAG = 'journeys'
const QUERY = { limit: upTo(1, 200), pageToken: text() } as const
const json = (value: unknown): Answer => ({ body: JSON.stringify(value), media: JSON_MEDIA })

export const SCHEDULE_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/schedules',
    tag: TAG,
    summary: 'Schedules of journeys, by name',
    query: QUERY,
    handle: async (call) => {
      const { limit = 50, pageToken = null } = queryOf(call, QUERY)
      const { items, next } = await listSchedules(call.engine, pageToken, limit)
      return json({ items: items.map(scheduleView), nextPageToken: next })
    },
  },
  {
    method: 'GET',
    path: '/api/v1/schedules/:id',
    tag: TAG,
    summary: 'A schedule: when its next run begins, or which run is under way',
    handle: async (call) => {
      const id = param(call, 'id')
      const schedule = await findSchedule(call.engine, id)
      if (schedule === null) throw notFound('schedule', id)
      return json(scheduleView(schedule))
    },
  },
  {
    method: 'DELETE',
    path: '/api/v1/schedules/:id',
    tag: TAG,
    summary: 'Remove a schedule; a run that is under way goes on',
    handle: async (call) => json(scheduleView(await call.engine.run(deleteSchedule(param(call, 'id'))))),
  },
]
