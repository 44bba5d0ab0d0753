/** `curfew jobs watch` and `curfew events tail`: streams of events, a line each. */
import type { JobAnswer } from '@curfew/core'
import type { Call, Command, Group } from '../frame/command.ts'
import { clean } from '../frame/clean.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { timeoutOf, type Remote, type ServerEvent } from '../frame/remote.ts'
import { queryText } from './filter.ts'
import { endOf, jobText } from './job-text.ts'
import { momentsOf, serverOf } from './show.ts'

const jobOf = async (server: Remote, id: string): Promise<JobAnswer> =>
  ((await server.call('GET', `/ojs/v1/jobs/${encodeURIComponent(id)}`)) as { job: JobAnswer }).job

/** Until the job is over: exits as it ended. */
export async function watchJob(call: Call, server: Remote, id: string): Promise<number> {
  const { flags, terminal } = call
  const longestMs = timeoutOf(flags)
  const stop = new AbortController()
  const signals = [stop.signal, ...(terminal.signal === undefined ? [] : [terminal.signal])]
  const timer = longestMs === null ? null : setTimeout(() => stop.abort(), longestMs)
  try {
    const path = `/ojs/v1/jobs/${encodeURIComponent(id)}/events`
    // The stream is opened before the job is looked at, so no end falls between the two.
    const stream = server.stream(path, AbortSignal.any(signals))
    const first = stream.next()
    first.catch(() => {})
    const before = await jobOf(server, id)
    if (endOf(before) === null) {
      for (let frame = await first; frame.done !== true; frame = await stream.next()) {
        if (frame.value.event === 'heartbeat') continue
        if (!flags.has('json')) terminal.write(eventLine(frame.value, momentsOf(call)))
        if (endOf(await jobOf(server, id)) !== null) break
      }
    }
  } catch (error) {
    if (!stop.signal.aborted && terminal.signal?.aborted !== true) throw error
  } finally {
    if (timer !== null) clearTimeout(timer)
    stop.abort()
  }
  if (terminal.signal?.aborted === true) return EXIT.interrupted
  const job = await jobOf(server, id)
  terminal.write(flags.has('json') ? JSON.stringify(job, null, 2) : jobText(job, momentsOf(call)))
  return endOf(job) ?? EXIT.running
}

interface EventData {
  readonly type?: string
  readonly time?: string
  readonly subject?: string
  readonly data?: Readonly<Record<string, unknown>>
}

export function eventLine({ event, data }: ServerEvent, when: (time: string | undefined) => string): string {
  const { type = event, time, subject = '', data: more = {} } = data as EventData
  const shown = Object.entries(more)
    .filter(([name, value]) => value !== null && typeof value !== 'object' && !['job_id', 'id'].includes(name))
    .map(([name, value]) => `${name}=${String(value)}`)
  return clean(`${when(time)}  ${type.padEnd(16)}  ${subject}  ${shown.join(' ')}`).trimEnd()
}

async function tail(call: Call): Promise<number> {
  const { flags, terminal } = call
  const query = queryText({
    channel: 'all',
    types: flags.text('types'),
    queues: flags.text('queues'),
    job_types: flags.text('job-types'),
  })
  const most = wholeOf(flags, 'count', Infinity)
  let seen = 0
  const done = new AbortController()
  const signal = AbortSignal.any([done.signal, ...(terminal.signal === undefined ? [] : [terminal.signal])])
  try {
    for await (const event of serverOf(call).stream(`/ojs/v1/events/stream${query}`, signal)) {
      if (event.event === 'heartbeat') continue
      terminal.write(flags.has('json') ? JSON.stringify(event.data) : eventLine(event, momentsOf(call)))
      seen += 1
      if (seen >= most) done.abort()
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
  return terminal.signal?.aborted === true ? EXIT.interrupted : EXIT.fine
}

export const EVENT_GROUP: Group = { name: 'events', summary: 'what happens on a server' }

export const EVENT_COMMANDS: readonly Command[] = [
  {
    name: 'events tail',
    summary: 'print events as they happen, one per line, until Ctrl-C',
    options: {
      types: { value: 'TYPE,…', help: 'only these, such as job.timeout,job.stalled' },
      queues: { value: 'QUEUE,…', help: 'only of these queues' },
      'job-types': { value: 'TYPE,…', help: 'only of jobs of these types' },
      count: { value: 'N', help: 'end after so many' },
      ...ONE,
    },
    exits: [130],
    run: tail,
  },
]
