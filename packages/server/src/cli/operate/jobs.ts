/** `curfew jobs …`, `curfew dead …` and `curfew at-risk`. */
import { readFileSync } from 'node:fs'
import type { JobAnswer } from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import type { Call, Command, Group, Options } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { countText, lengthText } from '../frame/rows.ts'
import { actOnMany, BULK } from './bulk.ts'
import { FILTER_HELP, FILTER_WORDS, queryText, readFilter } from './filter.ts'
import { jobText, whyText, type FoundJob } from './job-text.ts'
import { LIMITS, limitsIn, refuseNothing } from './limit-options.ts'
import { CURSOR, LIMIT, LIST, momentsOf, nameOf, pageOf, serverOf, showList, showOne } from './show.ts'
import { watchJob } from './watch.ts'

interface Found {
  readonly items: readonly FoundJob[]
  readonly looked_back_to: string | null
  readonly next_cursor: string | null
}

async function list(call: Call): Promise<number> {
  const server = serverOf(call)
  const filter = await readFilter(server, call.flags.names, true)
  const query = queryText({ ...filter, ...pageOf(call) })
  const found = (await server.call('GET', `/api/v1/board/jobs${query}`)) as Found
  const when = momentsOf(call)
  const { next_cursor: cursor, looked_back_to: until } = found
  return showList(call, {
    answer: found,
    items: found.items,
    id: ({ id }) => id,
    head: ['ID', 'TYPE', 'STATE', 'WHY', 'WHEN', 'TRY', 'WORKER'],
    row: (job) => [
      job.id,
      job.type,
      job.state,
      whyText(job),
      when(job.ended_at ?? job.started_at ?? job.created_at),
      `${String(job.attempt)}/${String(job.max_attempts)}`,
      job.worker_id ?? '–',
    ],
    none: 'No job was found.',
    foot: cursor === null ? null : `Looked back to ${when(until)}. Further: --cursor ${cursor}`,
  })
}

async function show(call: Call): Promise<number> {
  const { job } = (await serverOf(call).call('GET', `/ojs/v1/jobs/${nameOf(call)}`)) as { job: JobAnswer }
  return showOne(call, job, jobText(job, momentsOf(call)))
}

const ENQUEUE: Options = {
  args: { value: 'JSON|@FILE', help: 'list of arguments; @- reads the standard input [[]]' },
  queue: { value: 'QUEUE', help: 'queue [default]' },
  priority: { value: 'N', help: '-100 to 100, higher first [0]' },
  id: { value: 'UUID', help: 'id of the job; a second job with it is refused' },
  at: { value: 'TIME', help: 'start at this time, or after +PT5M' },
  tag: { value: 'TAG', many: true, help: 'a tag; several times for several' },
  'max-attempts': { value: 'N', help: 'attempts in all [3]' },
  ...LIMITS,
}

function enqueueBody({ flags }: Call): Record<string, unknown> {
  const attempts = flags.text('max-attempts')
  const tags = flags.texts('tag')
  const given = {
    queue: flags.text('queue'),
    id: flags.text('id'),
    scheduled_at: flags.text('at'),
    priority: flags.text('priority') === undefined ? undefined : wholeOf(flags, 'priority', 0, -100),
    retry: attempts === undefined ? undefined : { max_attempts: wholeOf(flags, 'max-attempts', 3) },
    tags: tags.length === 0 ? undefined : tags,
  }
  const known = Object.entries(given).filter(([, value]) => value !== undefined)
  return { type: flags.names[0], args: argsIn(flags.text('args')), ...Object.fromEntries(known), ...limitsIn(flags) }
}

function argsIn(given: string | undefined): unknown {
  if (given === undefined) return []
  const file = given.startsWith('@') ? given.slice(1) : null
  const json = file === null ? given : readFileSync(file === '-' ? 0 : file, 'utf8')
  try {
    const value = JSON.parse(json) as unknown
    return Array.isArray(value) ? value : [value]
  } catch (error) {
    throw new SettingsError(`--args is not valid JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function enqueue(call: Call): Promise<number> {
  const server = serverOf(call)
  const { job } = (await server.call('POST', '/ojs/v1/jobs', enqueueBody(call))) as { job: JobAnswer }
  if (call.flags.has('wait')) return watchJob(call, server, job.id)
  return showOne(call, job, job.id)
}

interface Plan {
  readonly limits: Readonly<Record<string, unknown>> & { readonly sources: Readonly<Record<string, string>> }
  readonly wins: readonly { stage: string; limit: string; source: string; after_ms: number }[]
  readonly attempts: readonly { attempt: number; starts_after_ms: number; fits: boolean }[]
  readonly warnings: readonly string[]
}

async function plan(call: Call): Promise<number> {
  const planned = (await serverOf(call).call('POST', '/ojs/v1/jobs/plan', enqueueBody(call))) as Plan
  const attempts = planned.attempts.map(
    ({ attempt, starts_after_ms: ms, fits }) =>
      `attempt ${String(attempt)} starts after ${lengthText(ms)}${fits ? '' : ': does not fit'}`,
  )
  const wins = planned.wins.map(
    ({ stage, limit, source, after_ms: ms }) => `${stage} ends by ${limit} after ${lengthText(ms)} (${source})`,
  )
  const warnings = planned.warnings.map((text) => `warning: ${text}`)
  return showOne(call, planned, [...wins, ...attempts, ...warnings].join('\n'))
}

async function set(call: Call): Promise<number> {
  const { flags } = call
  const body = {
    ...limitsIn(flags),
    ...(flags.text('priority') === undefined ? {} : { priority: wholeOf(flags, 'priority', 0, -100) }),
    ...(flags.text('at') === undefined ? {} : { scheduled_at: flags.text('at') }),
  }
  refuseNothing(body, 'jobs set')
  const { job } = (await serverOf(call).call('PATCH', `/ojs/v1/jobs/${nameOf(call)}`, body)) as { job: JobAnswer }
  return showOne(call, job, jobText(job, momentsOf(call)))
}

async function deadList(call: Call): Promise<number> {
  const server = serverOf(call)
  const filter = await readFilter(server, call.flags.names, false)
  const query = queryText({ ...filter, ...pageOf(call) })
  const found = (await server.call('GET', `/ojs/v1/dead-letter${query}`)) as {
    jobs: readonly JobAnswer[]
    pagination: { next_cursor?: string }
  }
  const when = momentsOf(call)
  const { next_cursor: cursor } = found.pagination
  return showList(call, {
    answer: found,
    items: found.jobs,
    id: ({ id }) => id,
    head: ['ID', 'TYPE', 'ERROR', 'DIED', 'QUEUE', 'TRY'],
    row: (job) => [
      job.id,
      job.type,
      job.error?.type ?? '–',
      when(job.discarded_at),
      job.queue,
      `${String(job.attempt)}/${String(job.max_attempts)}`,
    ],
    none:
      'There are no dead letters. Failed jobs come here if their retry policy or their handler says so; the others:\n' +
      '  curfew jobs list state:discarded',
    foot: cursor === undefined ? null : `Further: --cursor ${cursor}`,
  })
}

interface Risks {
  readonly items: readonly {
    readonly job_id: string
    readonly type: string
    readonly queue: string
    readonly latest_start: string
    readonly late_by_ms: number | null
    readonly limit: string
    readonly source: string
    readonly jobs_ahead: number
  }[]
  readonly complete?: boolean
}

async function atRisk(call: Call): Promise<number> {
  const { flags } = call
  const query = queryText({ queue: flags.text('queue'), limit: wholeOf(flags, 'limit', 50) })
  const risks = (await serverOf(call).call('GET', `/ojs/v1/admin/at-risk${query}`)) as Risks
  const when = momentsOf(call)
  // An older server does not say it.
  const part = risks.complete === false ? ' Only a part of the jobs that wait was looked at.' : ''
  showList(call, {
    answer: risks,
    items: risks.items,
    id: ({ job_id: id }) => id,
    head: ['ID', 'TYPE', 'LATE BY', 'MUST START', 'QUEUE', 'AHEAD', 'LIMIT'],
    row: (risk) => [
      risk.job_id,
      risk.type,
      risk.late_by_ms === null ? 'nothing starts' : lengthText(risk.late_by_ms),
      when(risk.latest_start),
      risk.queue,
      String(risk.jobs_ahead),
      `${risk.limit} (${risk.source})`,
    ],
    none: `No job will be late at the present pace.${part}`,
    foot:
      risks.items.length === 0
        ? null
        : `${countText(risks.items.length, 'job')} will be late at the present pace.${part}`,
  })
  return flags.has('fail') && risks.items.length > 0 ? EXIT.findings : EXIT.fine
}

const bulk = (verb: 'retry' | 'cancel' | 'delete', isHarmless?: true) => (call: Call) =>
  actOnMany(call, {
    verb,
    path: `/ojs/v1/jobs/bulk/${verb}`,
    method: 'POST',
    ...(isHarmless === undefined ? {} : { isHarmless }),
  })

export const JOB_GROUPS: readonly Group[] = [
  { name: 'jobs', summary: 'jobs of a server' },
  { name: 'dead', summary: 'jobs that failed for good and wait for a decision' },
]

export const JOB_COMMANDS: readonly Command[] = [
  {
    name: 'jobs list',
    args: '[FILTER...]',
    summary: 'find jobs, newest first',
    more: [
      ...FILTER_HELP,
      '  source:publish|queue|…  id:BEGINNING',
      '',
      'Example: curfew jobs list state:discarded error:timeout since:-1h',
    ],
    words: FILTER_WORDS,
    options: { ...LIMIT, ...CURSOR, ...LIST },
    run: list,
  },
  { name: 'jobs show', args: 'ID', summary: 'show one job; see also curfew explain', options: ONE, run: show },
  {
    name: 'jobs enqueue',
    args: 'TYPE',
    summary: 'enqueue a job and print its id',
    options: { ...ENQUEUE, wait: { help: 'wait for its end, as curfew jobs watch does' }, ...ONE },
    exits: [3, 4],
    run: enqueue,
  },
  {
    name: 'jobs plan',
    args: 'TYPE',
    summary: 'say what an enqueue would mean: which limits win, which attempts fit; stores nothing',
    options: { ...ENQUEUE, ...ONE },
    run: plan,
  },
  {
    name: 'jobs retry',
    args: '[ID...]',
    summary: 'start discarded jobs again with new attempts; end the backoff of others',
    options: { ...BULK, ...ONE },
    run: bulk('retry', true),
  },
  {
    name: 'jobs cancel',
    args: '[ID...]',
    summary: 'cancel jobs, active ones at once',
    options: { ...BULK, ...ONE },
    run: bulk('cancel'),
  },
  {
    name: 'jobs delete',
    args: '[ID...]',
    summary: 'remove jobs that are over',
    options: { ...BULK, ...ONE },
    run: bulk('delete'),
  },
  {
    name: 'jobs set',
    args: 'ID',
    summary: 'change limits, priority or time of a job that is not active and not over',
    options: {
      ...LIMITS,
      priority: { value: 'N', help: '-100 to 100, higher first' },
      at: { value: 'TIME', help: 'start at this time' },
      ...ONE,
    },
    run: set,
  },
  {
    name: 'jobs watch',
    args: 'ID',
    summary: 'print what happens to a job until it is over',
    options: {
      timeout: { value: 'LENGTH', help: 'watch so long at most, then exit with 5' },
      ...ONE,
    },
    exits: [3, 4, 5, 130],
    run: (call) => watchJob(call, serverOf(call), call.flags.names[0] ?? ''),
  },
  {
    name: 'dead list',
    args: '[FILTER...]',
    summary: 'list dead letters, newest first',
    more: FILTER_HELP,
    words: FILTER_WORDS,
    options: { ...LIMIT, ...CURSOR, ...LIST },
    run: deadList,
  },
  {
    name: 'dead retry',
    args: '[ID...]',
    summary: 'start dead letters again with new attempts',
    options: { ...BULK, ...ONE },
    run: (call) =>
      actOnMany(call, { verb: 'retry', path: '/ojs/v1/dead-letter/retry', method: 'POST', isHarmless: true }),
  },
  {
    name: 'dead delete',
    args: '[ID...]',
    summary: 'remove dead letters',
    options: { ...BULK, ...ONE },
    run: (call) => actOnMany(call, { verb: 'delete', path: '/ojs/v1/dead-letter', method: 'DELETE' }),
  },
  {
    name: 'at-risk',
    summary: 'list jobs that will miss a deadline at the present pace',
    options: {
      queue: { value: 'QUEUE', help: 'of this queue' },
      fail: { help: 'exit with 6 if there are any' },
      ...LIMIT,
      ...LIST,
    },
    exits: [6],
    run: atRisk,
  },
]
