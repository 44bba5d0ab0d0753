/** What an event looks like outside, and which ones a reader asked for. */
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
