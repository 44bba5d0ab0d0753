/** `curfew status`, `curfew timeouts`, `curfew open`. */
import { spawn } from 'node:child_process'
import { SOURCE_CHIPS, whoSet } from '@curfew/core'
import type { Call, Command } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, SERVER_OPTIONS } from '../frame/flags.ts'
import { countText, fieldsText, lengthText } from '../frame/rows.ts'
import { queryText } from './filter.ts'
import { LIST, serverOf, showList, showOne, windowFrom } from './show.ts'

interface Health {
  readonly status: string
  readonly server_version: string
  readonly clock_offset_ms?: number
  readonly uptime_seconds?: number
  readonly backend: { readonly type?: string; readonly status?: string; readonly reason?: string }
}

interface Stats {
  readonly queues: number
  readonly workers: number
  readonly jobs: Readonly<Record<string, number>>
}

async function status(call: Call): Promise<number> {
  const server = serverOf(call)
  // A server that is degraded answers 503 with the same body.
  const health = (await server.ask('GET', '/ojs/v1/health')).body as Health
  const stats = (await server.call('GET', '/ojs/v1/admin/stats')) as Stats
  const risks = (await server.call('GET', '/ojs/v1/admin/at-risk?limit=200')) as { items: readonly unknown[] }
  const { backend } = health
  const late = risks.items.length
  const jobs = Object.entries(stats.jobs).filter(([, count]) => count > 0)
  const text = fieldsText([
    ['server', `${server.url}, version ${health.server_version}`],
    ['state', health.status],
    ['store', [backend.type, backend.status, backend.reason].filter((word) => word !== undefined).join(', ')],
    ['up', health.uptime_seconds === undefined ? null : lengthText(health.uptime_seconds * 1_000)],
    ['clock', health.clock_offset_ms === undefined ? null : `off by ${lengthText(Math.abs(health.clock_offset_ms))}`],
    ['jobs', jobs.length === 0 ? 'none' : jobs.map(([state, count]) => `${state} ${String(count)}`).join(', ')],
    ['queues', String(stats.queues)],
    ['workers', String(stats.workers)],
    [
      'late',
      late === 0
        ? 'no job will be late at the present pace'
        : `${countText(late, 'job')} will be late; see curfew at-risk`,
    ],
  ])
  showOne(call, { health, stats, at_risk: late }, text)
  return health.status === 'ok' ? EXIT.fine : EXIT.findings
}

interface Series {
  readonly groups: readonly {
    readonly name: string | null
    readonly other: boolean
    readonly total: number
    readonly points: readonly number[]
  }[]
}

async function timeouts(call: Call): Promise<number> {
  const { flags } = call
  const server = serverOf(call)
  const by = flags.text('by') ?? 'type'
  const asked = { from: flags.text('from') ?? '-1h', to: flags.text('to'), queue: flags.text('queue') }
  const query = queryText({ metric: 'timeouts', by, ...asked })
  const answer = (await server.call('GET', `/api/v1/board/series${query}`)) as Series
  const groups = answer.groups.filter(({ total }) => total > 0)
  return showList(call, {
    answer,
    items: groups,
    id: ({ name }) => name ?? '',
    head: [by.toUpperCase(), 'TIMEOUTS', 'WHEN'],
    row: ({ name, other, total, points }) => [
      other ? 'others' : by === 'source' && name !== null ? `${chipOf(name)} ${whoSet(name)}` : (name ?? '–'),
      String(total),
      spark(points),
    ],
    none: 'No limit ran out.',
  })
}

const chipOf = (source: string): string => SOURCE_CHIPS[source] ?? '?'

const BARS = '▁▂▃▄▅▆▇█'
const MAX_BARS = 30

/** How a count went over time, in one line. */
export function spark(points: readonly number[]): string {
  const width = Math.ceil(points.length / MAX_BARS)
  const sums: number[] = []
  for (let at = 0; at < points.length; at += width)
    sums.push(points.slice(at, at + width).reduce((sum, value) => sum + value, 0))
  const highest = Math.max(1, ...sums)
  return sums
    .map((value) => (value === 0 ? ' ' : (BARS[Math.ceil((value / highest) * 8) - 1] ?? ' ')))
    .join('')
    .trimEnd()
}

const OPENERS: Readonly<Partial<Record<NodeJS.Platform, string>>> = { darwin: 'open', win32: 'explorer' }

/** The address is printed, and given to a browser where there is a terminal. */
function open({ flags, terminal }: Call): number {
  const { url } = serverOf({ flags, terminal } as Call)
  const path = flags.names[0] === undefined ? '/' : `/jobs/${encodeURIComponent(flags.names[0])}`
  terminal.write(`${url}${path}`)
  if (terminal.ask !== undefined && !flags.has('print')) openInBrowser(`${url}${path}`)
  return EXIT.fine
}

/** `missed` hears why no browser was opened. */
export function openInBrowser(address: string, missed: (why: string) => void = () => {}): void {
  const opener = OPENERS[process.platform] ?? 'xdg-open'
  const child = spawn(opener, [address], { detached: true, stdio: 'ignore' })
  child.on('error', () => {
    missed(`${opener} cannot be started`)
  })
  // Explorer ends with 1 also when it has opened the page.
  child.on('exit', (code) => {
    if (code !== null && code !== 0 && process.platform !== 'win32') missed(`${opener} ended with ${String(code)}`)
  })
  child.unref()
}

export const STATUS_COMMANDS: readonly Command[] = [
  {
    name: 'status',
    summary: 'say in a few lines how a server is doing',
    options: ONE,
    exits: [6],
    run: status,
  },
  {
    name: 'timeouts',
    summary: 'count the limits that ran out',
    options: {
      by: { choices: ['type', 'queue', 'kind', 'source'], help: 'how they are grouped [type]' },
      ...windowFrom('-1h'),
      queue: { value: 'QUEUE', help: 'of this queue' },
      ...LIST,
    },
    run: timeouts,
  },
  {
    name: 'open',
    args: '[ID]',
    summary: 'open the board of a server, or a job on it, in a browser',
    options: {
      print: { help: 'only print the address' },
      url: SERVER_OPTIONS['url'] ?? { help: '' },
    },
    run: open,
  },
]
