/** `curfew queues …`, `curfew limits list`, `curfew types …`. */
import type { Call, Command, Group } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { fieldsText, lengthText } from '../frame/rows.ts'
import { queryText } from './filter.ts'
import { LIMITS, limitsIn, refuseNothing } from './limit-options.ts'
import { LIMIT, LIST, momentsOf, nameOf, pageOf, serverOf, showList, showOne } from './show.ts'

interface QueueView {
  readonly name: string
  readonly status: string
  readonly paused_at?: string
  readonly draining_at?: string
  readonly counts: Readonly<Record<string, number>>
  readonly config?: Readonly<Record<string, unknown>>
}

const COUNTS = ['available', 'active', 'scheduled', 'retryable', 'discarded'] as const

async function list(call: Call): Promise<number> {
  const query = queryText(pageOf(call))
  const answer = (await serverOf(call).call('GET', `/ojs/v1/queues${query}`)) as { queues: readonly QueueView[] }
  return showList(call, {
    answer,
    items: answer.queues,
    id: ({ name }) => name,
    head: ['QUEUE', 'STATE', ...COUNTS.map((name) => name.toUpperCase())],
    row: ({ name, status, counts }) => [name, status, ...COUNTS.map((state) => String(counts[state] ?? 0))],
    none: 'There are no queues yet: the first job makes one.',
  })
}

interface StatsView {
  readonly stats: Readonly<Record<string, number | null>>
}

async function show(call: Call): Promise<number> {
  const server = serverOf(call)
  const when = momentsOf(call)
  const queue = (await server.call('GET', `/ojs/v1/admin/queues/${nameOf(call)}`)) as QueueView | { queue: QueueView }
  const view = 'queue' in queue && typeof queue.queue === 'object' ? queue.queue : (queue as QueueView)
  const { stats } = (await server.call('GET', `/ojs/v1/queues/${nameOf(call)}/stats`)) as StatsView
  const since = view.paused_at ?? view.draining_at
  const text = fieldsText([
    ['queue', view.name],
    ['state', `${view.status}${since === undefined ? '' : ` since ${when(since)}`}`],
    ...Object.entries(view.counts).map(([state, count]) => [state, String(count)] as const),
    ['completed last hour', String(stats['completed_last_hour'] ?? '–')],
    ['failed last hour', String(stats['failed_last_hour'] ?? '–')],
    ['mean wait', lengthText(stats['avg_wait_ms'])],
    ['mean duration', lengthText(stats['avg_duration_ms'])],
    ['config', view.config === undefined ? null : JSON.stringify(view.config)],
  ])
  return showOne(call, { ...view, stats }, text)
}

const order = (verb: 'pause' | 'drain' | 'resume', done: string) => async (call: Call) => {
  const server = serverOf(call)
  const answers: unknown[] = []
  for (const name of call.flags.names) {
    answers.push(await server.call('POST', `/ojs/v1/queues/${encodeURIComponent(name)}/${verb}`))
    if (!call.flags.has('json')) call.terminal.write(`${name} ${done}`)
  }
  if (call.flags.has('json')) call.terminal.write(JSON.stringify(answers, null, 2))
  return EXIT.fine
}

async function set(call: Call): Promise<number> {
  const { flags } = call
  const depth = flags.text('max-depth')
  const body = {
    ...limitsIn(flags, { prefix: 'default_', mayRemove: true }),
    ...(flags.text('order') === undefined ? {} : { order: flags.text('order') }),
    ...(depth === undefined
      ? {}
      : { backpressure: depth === 'none' ? null : { max_depth: wholeOf(flags, 'max-depth', 0) } }),
  }
  refuseNothing(body, 'queues set')
  const answer = (await serverOf(call).call('PUT', `/ojs/v1/admin/queues/${nameOf(call)}/config`, body)) as {
    config: Readonly<Record<string, unknown>>
  }
  return showOne(
    call,
    answer,
    fieldsText(Object.entries(answer.config).map(([key, value]) => [key, JSON.stringify(value)])),
  )
}

interface LimiterView {
  readonly key?: string
  readonly queue?: string
  readonly concurrency: { readonly limit: number } | null
  readonly active: number
  readonly waiting: number
  readonly window: { readonly opens_at?: string | null }
  readonly rate?: { readonly limit?: number; readonly period?: string } | null
}

async function limits(call: Call): Promise<number> {
  const query = queryText(pageOf(call))
  const answer = (await serverOf(call).call('GET', `/ojs/v1/rate-limits${query}`)) as { items: readonly LimiterView[] }
  const when = momentsOf(call)
  return showList(call, {
    answer,
    items: answer.items,
    id: ({ key, queue }) => key ?? `queue:${queue ?? ''}`,
    head: ['LIMITER', 'AT ONCE', 'RATE', 'ACTIVE', 'WAITING', 'OPENS'],
    row: ({ key, queue, concurrency, rate, active, waiting, window }) => [
      key ?? `queue ${queue ?? ''}`,
      concurrency === null ? '–' : String(concurrency.limit),
      rate?.limit === undefined ? '–' : `${String(rate.limit)} per ${rate.period ?? ''}`,
      String(active),
      String(waiting),
      when(window.opens_at),
    ],
    none: 'No limiter is in use.',
  })
}

type TypeView = Readonly<Record<string, unknown>> & { readonly type: string; readonly updated_at: string }

async function types(call: Call): Promise<number> {
  const answer = (await serverOf(call).call('GET', '/api/v1/job-types')) as { items: readonly TypeView[] }
  const when = momentsOf(call)
  return showList(call, {
    answer,
    items: answer.items,
    id: ({ type }) => type,
    head: ['TYPE', 'CHANGED', 'LIMITS'],
    row: ({ type, updated_at: changed, ...rest }) => [type, when(changed), limitsText(rest)],
    none: 'No type has limits of its own.',
  })
}

const limitsText = (fields: Readonly<Record<string, unknown>>): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')

/** A policy is replaced as a whole, so what is not named is sent again. */
async function typesSet(call: Call): Promise<number> {
  const server = serverOf(call)
  const given = limitsIn(call.flags, { mayRemove: true })
  refuseNothing(given, 'types set')
  const path = `/api/v1/job-types/${nameOf(call)}`
  const before = await server.ask('GET', path)
  const { type: _type, updated_at: _at, ...kept } = (before.status === 200 ? before.body : {}) as Partial<TypeView>
  const body: Record<string, unknown> = { ...kept }
  for (const [name, value] of Object.entries(given)) {
    // In seconds or in milliseconds: the one that was there before must not contradict.
    const base = name.replace(/_ms$/, '')
    if (base !== name) delete body[base]
    if (value === null) delete body[name]
    else body[name] = value
  }
  const { type, updated_at: _changed, ...rest } = (await server.call('PUT', path, body)) as TypeView
  return showOne(call, { type, ...rest }, `${type}  ${limitsText(rest)}`)
}

export const QUEUE_GROUPS: readonly Group[] = [
  { name: 'queues', summary: 'queues of a server' },
  { name: 'limits', summary: 'rate and concurrency limits in use' },
  { name: 'types', summary: 'limits of job types' },
]

const DEFAULTS = Object.fromEntries(
  Object.entries(LIMITS).map(([name, option]) => [
    name,
    { ...option, help: `${option.help}${option.value === undefined ? '' : '; none removes it'}` },
  ]),
)

export const QUEUE_COMMANDS: readonly Command[] = [
  { name: 'queues list', summary: 'list queues with their counts', options: { ...LIMIT, ...LIST }, run: list },
  {
    name: 'queues show',
    args: 'QUEUE',
    summary: 'show one queue: counts, pace, configuration',
    options: ONE,
    run: show,
  },
  {
    name: 'queues pause',
    args: 'QUEUE...',
    summary: 'hand out no more jobs; what is active goes on',
    options: ONE,
    run: order('pause', 'is paused'),
  },
  {
    name: 'queues drain',
    args: 'QUEUE...',
    summary: 'accept no new jobs; finish those that are there',
    options: ONE,
    run: order('drain', 'is draining'),
  },
  {
    name: 'queues resume',
    args: 'QUEUE...',
    summary: 'end a pause or a drain',
    options: ONE,
    run: order('resume', 'runs'),
  },
  {
    name: 'queues set',
    args: 'QUEUE',
    summary: 'set default limits, order or depth of a queue',
    options: {
      ...DEFAULTS,
      order: { choices: ['fifo', 'edf'], help: 'edf: the earliest deadline first' },
      'max-depth': { value: 'N', help: 'refuse more waiting jobs than this; none removes it' },
      ...ONE,
    },
    run: set,
  },
  { name: 'limits list', summary: 'list limiters of keys and queues', options: { ...LIMIT, ...LIST }, run: limits },
  { name: 'types list', summary: 'list job types that have limits of their own', options: LIST, run: types },
  {
    name: 'types set',
    args: 'TYPE',
    summary: 'set limits for every job of a type; what is not named stays',
    options: { ...DEFAULTS, ...ONE },
    run: typesSet,
  },
]
