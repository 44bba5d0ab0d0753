/** What an event looks like outside, and which ones a reader asked for. */
import { eventId, iso, type Json } from '@curfew/core'
import type { StoredEvent } from '../store/store.ts'
import { objectOf } from './message.ts'

export interface EventFilter {
  readonly types: readonly string[]
  readonly queues: readonly string[]
  readonly jobTypes: readonly string[]
  readonly subject: string | null
}

export function matches(
  filter: EventFilter,
  event: { type: string; queue: string | null; jobType: string | null; subject: string },
): boolean {
  const { types, queues, jobTypes, subject } = filter
  if (subject !== null && event.subject !== subject) return false
  if (queues.length > 0 && (event.queue === null || !queues.includes(event.queue))) return false
  if (jobTypes.length > 0 && (event.jobType === null || !jobTypes.includes(event.jobType))) return false
  return (
    types.length === 0 ||
    types.some((type) => (type.endsWith('*') ? event.type.startsWith(type.slice(0, -1)) : event.type === type))
  )
}

export function eventText(event: StoredEvent): Json {
  return objectOf({
    specversion: '"1.0"',
    id: JSON.stringify(eventId(event.at, event.sequence)),
    type: JSON.stringify(event.type),
    source: JSON.stringify(`ojs://curfew/${event.type.split('.')[0] ?? 'server'}s`),
    time: JSON.stringify(iso(event.at)),
    subject: JSON.stringify(event.subject),
    data: event.data,
  })
}
