/** `curfew workers …`, `curfew cron …`, `curfew workflows …`, `curfew webhooks …`. */
import type { Call, Command, Group } from '../frame/command.ts'
import { confirmed, YES } from '../frame/confirm.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { countText, fieldsText, lengthText } from '../frame/rows.ts'
import { queryText } from './filter.ts'
import { CURSOR, LIMIT, LIST, momentsOf, nameOf, pageOf, serverOf, showList, showOne } from './show.ts'

interface WorkerView {
  readonly worker_id: string
  readonly hostname?: string | null
  readonly pid?: number | null
  readonly state: string
  readonly directive: string
  readonly queues: readonly string[] | null
  readonly concurrency?: number | null
  readonly active_job_ids: readonly string[]
  readonly last_heartbeat_at: string | null
  readonly last_seen_at: string
}

async function workers(call: Call): Promise<number> {
  const query = queryText(pageOf(call))
  const answer = (await serverOf(call).call('GET', `/ojs/v1/workers${query}`)) as { workers: readonly WorkerView[] }
  const when = momentsOf(call)
  return showList(call, {
    answer,
    items: answer.workers,
    id: ({ worker_id: id }) => id,
    head: ['WORKER', 'STATE', 'ORDER', 'ACTIVE', 'QUEUES', 'LAST SEEN'],
    row: (worker) => [
      worker.worker_id,
      worker.state,
      worker.directive,
      String(worker.active_job_ids.length),
      (worker.queues ?? []).join(','),
      when(worker.last_seen_at),
    ],
    none: 'There are no workers.',
  })
}

async function worker(call: Call): Promise<number> {
  const { worker: view } = (await serverOf(call).call('GET', `/ojs/v1/workers/${nameOf(call)}`)) as {
    worker: WorkerView
  }
  const when = momentsOf(call)
  const text = fieldsText([
    ['worker', view.worker_id],
    ['state', view.state],
    ['order', view.directive],
    ['host', view.hostname],
    ['pid', view.pid === null || view.pid === undefined ? null : String(view.pid)],
    ['queues', (view.queues ?? []).join(', ')],
    ['concurrency', view.concurrency === null || view.concurrency === undefined ? null : String(view.concurrency)],
    ['last beat', when(view.last_heartbeat_at)],
    ['last seen', when(view.last_seen_at)],
    ['active jobs', String(view.active_job_ids.length)],
    ...view.active_job_ids.map((id) => ['', id] as const),
  ])
  return showOne(call, view, text)
}

const order = (verb: 'quiet' | 'terminate' | 'resume', done: string) => async (call: Call) => {
  const { flags, terminal } = call
  const what = `Terminate ${flags.names.length === 1 ? (flags.names[0] ?? '') : countText(flags.names.length, 'worker')}`
  if (verb === 'terminate' && !(await confirmed(flags, terminal, what))) return EXIT.refused
  const server = serverOf(call)
  const answers: unknown[] = []
  for (const name of flags.names) {
    answers.push(await server.call('POST', `/ojs/v1/admin/workers/${encodeURIComponent(name)}/${verb}`))
    if (!flags.has('json')) terminal.write(`${name} ${done}`)
  }
  if (flags.has('json')) terminal.write(JSON.stringify(answers, null, 2))
  return EXIT.fine
}

interface CronView {
  readonly name: string
  readonly expression: string
  readonly timezone: string
  readonly type: string
  readonly enabled: boolean
  readonly next_run_at?: string | null
  readonly last_run_at?: string | null
}

async function crons(call: Call): Promise<number> {
  const query = queryText(pageOf(call))
  const answer = (await serverOf(call).call('GET', `/ojs/v1/cron${query}`)) as { crons: readonly CronView[] }
  const when = momentsOf(call)
  return showList(call, {
    answer,
    items: answer.crons,
    id: ({ name }) => name,
    head: ['NAME', 'EXPRESSION', 'ZONE', 'TYPE', 'STATE', 'LAST', 'NEXT'],
    row: (cron) => [
      cron.name,
      cron.expression,
      cron.timezone,
      cron.type,
      cron.enabled ? 'enabled' : 'paused',
      when(cron.last_run_at),
      when(cron.next_run_at),
    ],
    none: 'There are no cron entries.',
  })
}

async function next(call: Call): Promise<number> {
  const query = queryText({ count: wholeOf(call.flags, 'count', 5) })
  const answer = (await serverOf(call).call('GET', `/ojs/v1/cron/${nameOf(call)}/next${query}`)) as {
    next_run_times: readonly string[]
  }
  return showOne(call, answer, answer.next_run_times.map(momentsOf(call)).join('\n'))
}

async function trigger(call: Call): Promise<number> {
  const answer = (await serverOf(call).call('POST', `/ojs/v1/cron/${nameOf(call)}/trigger`)) as { job: { id: string } }
  return showOne(call, answer, answer.job.id)
}

interface StepView {
  readonly id: string
  readonly type: string
  readonly state: string
  readonly job_id: string | null
  readonly started_at?: string
  readonly completed_at?: string
  readonly steps?: readonly StepView[]
}

interface WorkflowView {
  readonly id: string
  readonly type: string
  readonly name?: string
  readonly state: string
  readonly steps_total?: number
  readonly steps_completed?: number
  readonly created_at?: string
  readonly deadline?: string
  readonly steps?: readonly StepView[]
}

async function workflows(call: Call): Promise<number> {
  const query = queryText({ state: call.flags.text('state'), ...pageOf(call) })
  const answer = (await serverOf(call).call('GET', `/ojs/v1/workflows${query}`)) as {
    workflows: readonly WorkflowView[]
    pagination: { next_cursor?: string }
  }
  const when = momentsOf(call)
  return showList(call, {
    answer,
    items: answer.workflows,
    id: ({ id }) => id,
    head: ['ID', 'NAME', 'TYPE', 'STATE', 'STEPS', 'CREATED', 'DEADLINE'],
    row: (flow) => [
      flow.id,
      flow.name ?? '–',
      flow.type,
      flow.state,
      `${String(flow.steps_completed ?? 0)}/${String(flow.steps_total ?? 0)}`,
      when(flow.created_at),
      when(flow.deadline),
    ],
    none: 'There are no workflows.',
    foot: answer.pagination.next_cursor === undefined ? null : `Further: --cursor ${answer.pagination.next_cursor}`,
  })
}

async function workflow(call: Call): Promise<number> {
  const { workflow: flow } = (await serverOf(call).call('GET', `/ojs/v1/workflows/${nameOf(call)}`)) as {
    workflow: WorkflowView
  }
  const when = momentsOf(call)
  const steps = (list: readonly StepView[], depth: number): (readonly [string, string])[] =>
    list.flatMap((step) => [
      [
        `${'  '.repeat(depth)}${step.id}`,
        `${step.state}  ${step.type}  ${step.started_at === undefined ? '' : `${when(step.started_at)} to ${when(step.completed_at)}`}  ${step.job_id ?? ''}`.trimEnd(),
      ] as const,
      ...steps(step.steps ?? [], depth + 1),
    ])
  const text = fieldsText([
    ['workflow', flow.id],
    ['name', flow.name],
    ['type', flow.type],
    ['state', flow.state],
    ['created', when(flow.created_at)],
    ['deadline', flow.deadline === undefined ? null : when(flow.deadline)],
    ...steps(flow.steps ?? [], 0),
  ])
  return showOne(call, flow, text)
}

async function cancelWorkflow(call: Call): Promise<number> {
  if (!(await confirmed(call.flags, call.terminal, `Cancel workflow ${call.flags.names[0] ?? ''}`))) return EXIT.refused
  const answer = (await serverOf(call).call('POST', `/ojs/v1/workflows/${nameOf(call)}/cancel`)) as WorkflowView
  return showOne(call, answer, `${call.flags.names[0] ?? ''} is cancelled`)
}

interface HookView {
  readonly id: string
  readonly url: string
  readonly events: readonly string[]
  readonly active: boolean
}

async function hooks(call: Call): Promise<number> {
  const query = queryText(pageOf(call))
  const answer = (await serverOf(call).call('GET', `/ojs/v1/webhooks/subscriptions${query}`)) as {
    subscriptions: readonly HookView[]
  }
  return showList(call, {
    answer,
    items: answer.subscriptions,
    id: ({ id }) => id,
    head: ['ID', 'STATE', 'URL', 'EVENTS'],
    row: ({ id, url, events, active }) => [id, active ? 'active' : 'off', url, events.join(',')],
    none: 'There are no webhooks.',
  })
}

async function testHook(call: Call): Promise<number> {
  const answer = (await serverOf(call).call('POST', `/ojs/v1/webhooks/subscriptions/${nameOf(call)}/test`)) as {
    success: boolean
    response_time_ms: number
    status_code?: number
    error?: string
  }
  const why = answer.error ?? (answer.status_code === undefined ? '' : `HTTP ${String(answer.status_code)}`)
  const text = `${answer.success ? 'delivered' : 'not delivered'} in ${lengthText(answer.response_time_ms)} ${why}`
  showOne(call, answer, text.trimEnd())
  return answer.success ? EXIT.fine : EXIT.failed
}

export const WORKER_GROUPS: readonly Group[] = [
  { name: 'workers', summary: 'workers of a server' },
  { name: 'cron', summary: 'cron entries' },
  { name: 'workflows', summary: 'workflows' },
  { name: 'webhooks', summary: 'webhooks' },
]

export const WORKER_COMMANDS: readonly Command[] = [
  { name: 'workers list', summary: 'list workers', options: { ...LIMIT, ...LIST }, run: workers },
  { name: 'workers show', args: 'WORKER', summary: 'show one worker and the jobs it holds', options: ONE, run: worker },
  {
    name: 'workers quiet',
    args: 'WORKER...',
    summary: 'ask workers to take no more jobs and finish theirs',
    options: ONE,
    run: order('quiet', 'is asked to be quiet'),
  },
  {
    name: 'workers terminate',
    args: 'WORKER...',
    summary: 'ask workers to end',
    options: { ...YES, ...ONE },
    run: order('terminate', 'is asked to end'),
  },
  {
    name: 'workers resume',
    args: 'WORKER...',
    summary: 'take back a request to be quiet',
    options: ONE,
    run: order('resume', 'works again'),
  },
  { name: 'cron list', summary: 'list cron entries', options: { ...LIMIT, ...LIST }, run: crons },
  {
    name: 'cron next',
    args: 'NAME',
    summary: 'print the next times of an entry',
    options: { count: { value: 'N', help: 'so many [5]' }, ...ONE },
    run: next,
  },
  { name: 'cron trigger', args: 'NAME', summary: 'enqueue the job of an entry now', options: ONE, run: trigger },
  {
    name: 'workflows list',
    summary: 'list workflows, newest first',
    options: {
      state: { choices: ['running', 'completed', 'failed', 'cancelled'], help: 'only in this state' },
      ...LIMIT,
      ...CURSOR,
      ...LIST,
    },
    run: workflows,
  },
  { name: 'workflows show', args: 'ID', summary: 'show a workflow with its steps', options: ONE, run: workflow },
  {
    name: 'workflows cancel',
    args: 'ID',
    summary: 'cancel a workflow: waiting jobs are cancelled, active ones run on',
    options: { ...YES, ...ONE },
    run: cancelWorkflow,
  },
  { name: 'webhooks list', summary: 'list webhooks', options: { ...LIMIT, ...LIST }, run: hooks },
  {
    name: 'webhooks test',
    args: 'ID',
    summary: 'send a test event now and say what came back',
    options: ONE,
    exits: [3],
    run: testHook,
  },
]
