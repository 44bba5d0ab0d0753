/** `curfew what-if`: what another timeout would have ended, from the lengths of attempts that the server keeps. */
import {
  lengthInWords,
  SOURCE_CHIPS,
  whatIf,
  whoSet,
  type Bucket,
  type JobAnswer,
  type Millis,
  type WhatIf,
} from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import type { Call, Command } from '../frame/command.ts'
import { lengthOf, ONE } from '../frame/flags.ts'
import type { Remote } from '../frame/remote.ts'
import { countText, type Moments } from '../frame/rows.ts'
import { queryText } from './filter.ts'
import { momentsOf, serverOf, showOne, windowFrom } from './show.ts'

type Query = Readonly<Record<string, string | number | undefined>>

/** As the API answers a series. */
interface Series {
  readonly from: string
  readonly to: string
  readonly complete: boolean
  readonly groups: readonly {
    readonly name: string | null
    readonly total: number
    readonly p50_ms?: number | null
    readonly p95_ms?: number | null
    readonly p99_ms?: number | null
    readonly buckets?: readonly Bucket[]
  }[]
}

interface Range {
  readonly least: number
  readonly most: number
}

interface Tried {
  readonly type: string
  readonly queue: string | null
  readonly from: string
  readonly to: string
  /** Whether the whole series was read. */
  readonly complete: boolean
  readonly attempts: number
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly p99_ms: number | null
  /** The timeout of the newest job that a timeout has ended, who set it, and how many attempts ended by theirs. */
  readonly timeout_ms: number | null
  readonly source: string | null
  readonly timed_out: number
  readonly tried_ms: number
  /** Null: unknown, since attempts were ended before that. */
  readonly would_end: (Range & { readonly completed: Range }) | null
}

async function run(call: Call): Promise<number> {
  const { flags } = call
  const text = flags.text('timeout')
  if (text === undefined) throw new SettingsError('--timeout is missing. See curfew what-if --help.')
  const only = { type: flags.names[0] ?? '', queue: flags.text('queue') }
  const within = { from: flags.text('from') ?? '-24h', to: flags.text('to') }
  const tried = await tryTimeout(serverOf(call), only, within, lengthOf(text, '--timeout'))
  return showOne(call, tried, whatIfText(tried, momentsOf(call)))
}

async function tryTimeout(
  server: Remote,
  only: { readonly type: string; readonly queue: string | undefined },
  within: Query,
  triedMs: Millis,
): Promise<Tried> {
  const series = async (asked: Query): Promise<Series> =>
    (await server.call('GET', `/api/v1/board/series${queryText({ ...asked, ...only, ...within })}`)) as Series
  const [all, byOutcome, timeouts, newest] = await Promise.all([
    series({ metric: 'durations' }),
    series({ metric: 'durations', by: 'outcome' }),
    series({ metric: 'timeouts', kind: 'execution' }),
    server.call('GET', `/ojs/v1/jobs${queryText({ ...only, timeout_kind: 'execution', limit: 1 })}`) as Promise<{
      jobs: readonly JobAnswer[]
    }>,
  ])
  const [lengths] = all.groups
  const { limit_ms: limitMs = null, source = null } = newest.jobs[0]?.error ?? {}
  const completed = byOutcome.groups.find(({ name }) => name === 'completed')
  const ended = whatIf(lengths?.buckets ?? [], triedMs, limitMs)
  return {
    type: only.type,
    queue: only.queue ?? null,
    from: all.from,
    to: all.to,
    complete: all.complete,
    attempts: ended.total,
    p50_ms: lengths?.p50_ms ?? null,
    p95_ms: lengths?.p95_ms ?? null,
    p99_ms: lengths?.p99_ms ?? null,
    timeout_ms: limitMs,
    source,
    timed_out: timeouts.groups[0]?.total ?? 0,
    tried_ms: triedMs,
    would_end: ended.isKnown
      ? { ...rangeOf(ended), completed: rangeOf(whatIf(completed?.buckets ?? [], triedMs, limitMs)) }
      : null,
  }
}

const rangeOf = ({ least, most }: WhatIf): Range => ({ least, most })

function whatIfText(tried: Tried, when: Moments): string {
  const { attempts, timeout_ms: limitMs, source, timed_out: timedOut, would_end: ends } = tried
  const subject = `${tried.type}${tried.queue === null ? '' : ` in ${tried.queue}`}`
  const window = `from ${when(tried.from)} to ${when(tried.to)}`
  if (attempts === 0) return `No attempt of ${subject} ended ${window}.`
  const percent = (count: number): number => Math.round((count / attempts) * 100)
  const words = ({ least, most }: Range): string =>
    least === most ? String(most) : `${String(least)} to ${String(most)}`
  const inPercent = ({ least, most }: Range): string => words({ least: percent(least), most: percent(most) })
  const chip = source === null ? '' : ` ${SOURCE_CHIPS[source] ?? '?'} ${whoSet(source)}`
  const { p50_ms: p50, p95_ms: p95, p99_ms: p99 } = tried
  return [
    `${subject}: ${countText(attempts, 'attempt')} ended ${window}`,
    `  they ran   p50 ${lengthInWords(p50 ?? 0)}, p95 ${lengthInWords(p95 ?? 0)}, p99 ${lengthInWords(p99 ?? 0)}`,
    limitMs === null
      ? '  now        no timeout has ended an attempt'
      : `  now        timeout ${lengthInWords(limitMs)}${chip}: ended ${String(timedOut)}, ${String(percent(timedOut))} %`,
    ends === null
      ? `  what if    timeout ${lengthInWords(tried.tried_ms)}: unknown, since attempts were ended before that`
      : `  what if    timeout ${lengthInWords(tried.tried_ms)}: would end ${words(ends)}, ${inPercent(ends)} %, of which ${words(ends.completed)} completed`,
    ...(tried.complete ? [] : ['Only a part of what is kept was read.']),
  ].join('\n')
}

export const WHAT_IF: Command = {
  name: 'what-if',
  args: 'TYPE',
  summary: 'say what another timeout would have ended, from how long attempts ran',
  more: [
    'A shorter timeout is known within a tenth of its length. What a longer one would',
    'have saved is unknown: an attempt that was ended has no length of its own.',
    '',
    'Example: curfew what-if report.build --timeout 5s',
  ],
  options: {
    timeout: { value: 'LENGTH', help: 'the timeout to try' },
    queue: { value: 'QUEUE', help: 'only jobs of this queue' },
    ...windowFrom('-24h'),
    ...ONE,
  },
  run,
}
