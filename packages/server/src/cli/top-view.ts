/** What `curfew top` shows: jobs sorted by what happens to them next, from the same model as `curfew explain`. */
import {
  instant,
  lengthInWords,
  SOURCE_CHIPS,
  timeline,
  type BoardJob,
  type Instant,
  type JobClock,
} from '@curfew/core'
import { HAPPENS } from './explain-text.ts'
import { clean } from './frame/clean.ts'
import { shortId } from './frame/rows.ts'
import { inkOn, type Paper } from './journey-chart.ts'

export interface TopModel {
  /** On the clock of the server, when all this was so. */
  readonly now: Instant
  readonly version: string
  readonly store: string
  readonly upSeconds: number
  readonly counts: Readonly<Record<string, number>>
  readonly late: number
  /** When the first of them is late, on the clock of the server. */
  readonly lateAt: Instant | null
  readonly jobs: readonly BoardJob[]
}

export interface TopRow {
  readonly job: BoardJob
  readonly clock: JobClock
}

/** `filter`: a part of the id, type or queue. */
export function topRows({ jobs }: TopModel, now: Instant, filter: string): TopRow[] {
  return jobs
    .filter(({ job }) => filter === '' || `${job.id} ${job.type} ${job.queue}`.includes(filter))
    .flatMap((job) => {
      // Clocks that another one cuts off do not strike.
      const [clock] = timeline(job, now)
        .clocks.filter(({ cutBy }) => cutBy === null)
        .sort((a, b) => a.until - b.until)
      return clock === undefined ? [] : [{ job, clock }]
    })
    .sort((a, b) => a.clock.until - b.clock.until)
}

const BAR = 8

function budget({ limitMs, until }: JobClock, now: Instant): string {
  if (limitMs === undefined || limitMs <= 0) return ''
  const share = Math.min(1, Math.max(0, 1 - (until - now) / limitMs))
  const full = Math.round(share * BAR)
  return '█'.repeat(full) + '░'.repeat(BAR - full)
}

export interface TopState {
  readonly now: Instant
  readonly selected: number
  readonly filter: string
  /** Shown in the last line instead of the keys. */
  readonly prompt: string | null
  readonly rows: number
}

/** As many lines as the terminal has. */
export function topLines(model: TopModel, state: TopState, paper: Paper): string[] {
  const ink = inkOn(paper)
  const { now, selected, filter } = state
  const found = topRows(model, now, filter)
  const room = Math.max(1, state.rows - 5)
  const first = Math.max(0, Math.min(selected - room + 1, found.length - room))
  const table = [
    ['NEXT', 'JOB', 'TYPE', 'WHAT HAPPENS', 'LIMIT', 'BUDGET'],
    ...found
      .slice(first, first + room)
      .map(({ job: { job }, clock }) => [
        clock.until <= now ? 'now' : lengthInWords(roundedTo100(clock.until - now)),
        shortId(job.id),
        cut(job.type, 14),
        HAPPENS[clock.kind],
        cut(
          `${clock.limit}${clock.limitMs === undefined ? '' : ` ${lengthInWords(clock.limitMs)}`} ${SOURCE_CHIPS[clock.source] ?? ''}`,
          19,
        ),
        budget(clock, now),
      ]),
  ]
  const widths = [0, 1, 2, 3, 4, 5].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  const lines = table.map((row) =>
    cut(clean(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')).trimEnd(), paper.width),
  )
  const [head = '', ...rows] = lines
  const shown = rows.map((line, index) => {
    if (index + first === selected) return paper.colour ? `\u001b[7m${line.padEnd(paper.width)}\u001b[0m` : `>${line}`
    const soon = (found[index + first]?.clock.until ?? Infinity) - now < 5_000
    return soon ? ink.yellow(line) : line
  })
  const counts = Object.entries(model.counts)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${String(count)}`)
  return [
    cut(
      `curfew ${model.version}  ${model.store}  up ${lengthInWords(model.upSeconds * 1_000)}  ${counts.join('  ')}`,
      paper.width,
    ),
    verdict(model, now, ink),
    ink.bold(head),
    ...shown,
    ...(found.length === 0 ? [ink.faint('Nothing is due to happen.')] : []),
    ...Array.from({ length: Math.max(0, room - Math.max(1, rows.length)) }, () => ''),
    cut(
      state.prompt ?? `enter explain, p pause queue, / filter${filter === '' ? '' : ` (${filter})`}, q quit`,
      paper.width,
    ),
  ]
}

function verdict({ late, lateAt }: TopModel, now: Instant, ink: ReturnType<typeof inkOn>): string {
  if (late === 0) return ink.green('✓ no job will be late at the present pace')
  const first = lateAt === null || lateAt <= now ? 'first now' : `first in ${lengthInWords(roundedTo100(lateAt - now))}`
  return ink.red(`● ${String(late)} will be late, ${first}`)
}

const roundedTo100 = (ms: number): number => (ms < 10_000 ? Math.round(ms / 100) * 100 : Math.round(ms / 1_000) * 1_000)
const cut = (text: string, width: number): string => (text.length > width ? `${text.slice(0, width - 1)}…` : text)

export const earliestOf = (times: readonly string[]): Instant | null =>
  times.length === 0 ? null : instant(Math.min(...times.map((time) => Date.parse(time))))
