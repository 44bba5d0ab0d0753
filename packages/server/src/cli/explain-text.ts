/** The timeline of a job in the characters of a terminal. Everything it shows is in the model; here is only the ink. */
import {
  axisOf,
  explain,
  lengthInWords,
  SOURCE_CHIPS,
  timeline,
  whoSet,
  type Axis,
  type BoardJob,
  type Instant,
  type JobClock,
  type Lane,
  type Mark,
  type MarkKind,
  type Timeline,
  type TimelineSpan,
} from '@curfew/core'
import { cleaned } from './frame/clean.ts'
import { wallText, withMoments } from './frame/rows.ts'
import { inkOn, type Ink, type Paper } from './journey-chart.ts'

const LABEL = 8
const NARROWEST = 24
const FOLD_WIDTH = 9
const WIDEST = 160

/** `isUtc`: times in UTC instead of those of this machine. */
export function explainText(document: BoardJob, now: Instant, paper: Paper, isUtc: boolean): string {
  const { job, place } = cleaned(document)
  const drawn = timeline(document, now)
  const { text } = explain(document.job, document.life, now, document.heldBy, document.steps)
  const ink = inkOn(paper)
  const width = Math.max(NARROWEST, Math.min(paper.width, WIDEST) - LABEL - 1)
  const axis = axisOf(drawn, width - 1, Math.min(FOLD_WIDTH, Math.floor(width / 4)))
  const shown = cleaned(drawn)
  return [
    `${ink.bold(job.type)}  ${job.id}  ${shown.headline}`,
    shown.sentence,
    ...(place === null ? [] : [placeText(place)]),
    '',
    ink.faint(`${' '.repeat(LABEL)}${ticks(drawn, axis, width, isUtc)}`),
    ...shown.lanes.map((lane) => `${nameOf(lane)}${laneText(lane, drawn, axis, width, ink)}`),
    ...(shown.hiddenAttempts === 0
      ? []
      : [ink.faint(`${' '.repeat(LABEL)}${String(shown.hiddenAttempts)} earlier attempts are not drawn`)]),
    ...bandLines(shown, ink, isUtc),
    ...limitLines(shown.clocks, drawn.now, ink, isUtc),
    '',
    ...withMoments(cleaned(text), isUtc).split('\n'),
  ].join('\n')
}

function placeText({ ahead, isExact }: NonNullable<BoardJob['place']>): string {
  if (ahead === 0) return 'First in its queue.'
  return `${isExact ? '' : 'At least '}${String(ahead)} ${ahead === 1 ? 'job is' : 'jobs are'} ahead of it in its queue.`
}

const nameOf = ({ name, isForeseen }: Lane): string =>
  `${name}${isForeseen ? '?' : ''}`.slice(0, LABEL - 1).padEnd(LABEL)

// ---- A lane ----

type Paint = keyof Ink

const PAST: Readonly<Record<TimelineSpan['kind'], readonly [string, Paint]>> = {
  waiting: ['▒', 'faint'],
  attempt: ['█', 'green'],
  grace: ['▨', 'yellow'],
  backoff: ['┄', 'plain'],
  overshoot: ['▓', 'red'],
  fuse: ['▬', 'plain'],
  reserved: ['▬', 'plain'],
  step: ['▇', 'green'],
  sleep: ['┄', 'plain'],
}
const COMING: Readonly<Record<TimelineSpan['kind'], readonly [string, Paint]>> = {
  waiting: ['·', 'faint'],
  attempt: ['╌', 'green'],
  grace: ['▨', 'faint'],
  backoff: ['┄', 'faint'],
  overshoot: ['▓', 'red'],
  fuse: ['╌', 'faint'],
  reserved: ['╌', 'faint'],
  step: ['╌', 'green'],
  sleep: ['┄', 'faint'],
}

/** The later in the list, the more it matters where two fall on one place. */
const MARKS: Readonly<Record<MarkKind, readonly [string, Paint]>> = {
  beat: ['╵', 'plain'],
  created: ['├', 'plain'],
  started: ['├', 'plain'],
  progress: ['◆', 'plain'],
  checkpoint: ['■', 'plain'],
  scheduled_at: ['▹', 'green'],
  retry: ['▹', 'green'],
  asked_to_stop: ['╎', 'yellow'],
  soft_deadline: ['╎', 'yellow'],
  ended: ['┤', 'plain'],
  late_result: ['✕', 'red'],
  visibility: ['┊', 'yellow'],
  worker_death: ['┊', 'yellow'],
  heartbeat: ['┊', 'yellow'],
  expires_at: ['┆', 'yellow'],
  ttl: ['┆', 'yellow'],
  hard_deadline: ['┃', 'red'],
  total: ['┃', 'red'],
}
const RANK = Object.keys(MARKS)

type Cell = readonly [string, Paint]

function laneText(lane: Lane, { now, to, folds }: Timeline, axis: Axis, width: number, ink: Ink): string {
  const cells: Cell[] = Array.from({ length: width }, () => [' ', 'plain'])
  const column = (at: Instant): number => Math.min(width - 1, Math.round(axis.x(at)))
  for (const span of lane.spans) {
    const [glyph, paint] = (span.isFuture ? COMING : PAST)[span.kind]
    const [begin, end] = [column(span.from), column(span.to)]
    for (let at = begin; at < Math.max(end, begin + 1); at += 1) cells[at] = [glyph, paint]
  }
  for (const fold of folds) drawFold(cells, column(fold.from), column(fold.to), fold.to - fold.from, lane)
  if (now <= to) cells[column(now)] = ['│', 'bold']
  const marks = [...lane.marks].sort((a, b) => RANK.indexOf(a.kind) - RANK.indexOf(b.kind))
  for (const mark of marks) cells[column(mark.at)] = glyphOf(mark)
  if (lane.edges.length > 0) cells[width - 1] = ['→', 'plain']
  if (lane.kind === 'attempt') drawEnding(cells, lane, column)
  return painted(cells, ink)
}

const glyphOf = ({ kind, cutBy }: Mark): Cell => [MARKS[kind][0], cutBy === undefined ? MARKS[kind][1] : 'faint']

/** How an attempt ended, and how late that was decided, where there is room behind it. */
function drawEnding(cells: Cell[], { spans, marks }: Lane, column: (at: Instant) => number): void {
  const ended = marks.find(({ kind }) => kind === 'ended')
  if (ended === undefined) return
  const late = spans.find(({ kind }) => kind === 'overshoot')?.overshootMs
  const words = ` ${ended.text ?? ''}${late === undefined ? '' : ` +${lengthInWords(late)}`} `
  const begin = Math.max(...marks.map(({ at }) => column(at))) + 1
  const isFree = cells.slice(begin, begin + words.length).every(([glyph]) => glyph === ' ')
  if (!isFree || begin + words.length > cells.length) return
  cells.splice(begin, words.length, ...[...words].map((glyph): Cell => [glyph, 'plain']))
}

/** In the lane of the whole life a fold says how long it is. */
function drawFold(cells: Cell[], begin: number, end: number, ms: number, { kind, spans }: Lane): void {
  if (spans.length === 0 || end - begin < 2) return
  const isCovered = cells.slice(begin, end).some(([glyph]) => glyph !== ' ')
  if (!isCovered) return
  const words = kind === 'life' ? lengthInWords(ms) : ''
  const room = end - begin - words.length
  const text =
    room < 2 ? '≈'.repeat(end - begin) : `${'≈'.repeat(Math.floor(room / 2))}${words}${'≈'.repeat(Math.ceil(room / 2))}`
  for (let at = begin; at < end; at += 1) cells[at] = [text[at - begin] ?? '≈', 'faint']
}

function painted(cells: readonly Cell[], ink: Ink): string {
  let out = ''
  for (let at = 0; at < cells.length;) {
    const paint = cells[at]?.[1] ?? 'plain'
    let run = ''
    for (; at < cells.length && (cells[at]?.[1] ?? 'plain') === paint; at += 1) run += cells[at]?.[0] ?? ' '
    out += run.trim() === '' ? run : ink[paint](run)
  }
  return out.trimEnd()
}

// ---- The axis ----

const TICK_EVERY = 22

/** Times of day along the axis; none inside a fold. */
function ticks({ from, to, folds }: Timeline, axis: Axis, width: number, isUtc: boolean): string {
  const isFine = to - from - folds.reduce((sum, fold) => sum + (fold.to - fold.from), 0) < 20_000
  const cells = Array.from({ length: width }, () => ' ')
  let free = 0
  for (let at = 0; at < width; at += TICK_EVERY) {
    const moment = axis.at(at)
    if (folds.some((fold) => moment > fold.from && moment < fold.to)) continue
    const label = wallText(moment, isUtc).slice(11, isFine ? 21 : 19)
    if (at < free || at + label.length > width) continue
    cells.splice(at, label.length, ...label)
    free = at + label.length + 1
  }
  return cells.join('').trimEnd()
}

function bandLines({ bands }: Timeline, ink: Ink, isUtc: boolean): string[] {
  return bands.map(({ kind, from, to }) => {
    const when = `${timeOfDay(from, isUtc)} to ${timeOfDay(to, isUtc)}, ${lengthInWords(to - from)}`
    return ink.faint(
      kind === 'away' ? `        no server was listening: ${when}` : `        its queue is paused: ${when}`,
    )
  })
}

// ---- Limits ----

const timeOfDay = (at: Instant, isUtc: boolean): string => wallText(at, isUtc).slice(11)

/** What happens when a clock has run out, in few words. */
export const HAPPENS: Readonly<Record<JobClock['kind'], string>> = {
  scheduled_at: 'becomes available',
  retry: 'tries again',
  soft_deadline: 'asked to stop',
  hard_deadline: 'attempt ends',
  heartbeat: 'stalls',
  worker_death: 'worker is dead',
  visibility: 'reservation lapses',
  ttl: 'too old to start',
  expires_at: 'too old to start',
  total: 'job ends',
}

function limitLines(clocks: readonly JobClock[], now: Instant, ink: Ink, isUtc: boolean): string[] {
  if (clocks.length === 0) return []
  const rows = clocks.map((clock) => {
    const { kind, until, limit, limitMs, source, cutBy, creditedMs, asked } = clock
    const left = until - now
    return {
      cells: [
        MARKS[kind][0],
        HAPPENS[kind],
        timeOfDay(until, isUtc),
        left < 0 ? 'due' : `in ${lengthInWords(left)}`,
        limitMs === undefined ? limit : `${limit} ${lengthInWords(limitMs)}`,
      ],
      more: [
        `${SOURCE_CHIPS[source] ?? '?'} ${whoSet(source)}`,
        ...(asked === undefined ? [] : [`more was ${whoSet(asked)}`]),
        ...(creditedMs === 0 ? [] : [`${lengthInWords(creditedMs)} credited: no server was listening`]),
        ...(cutBy === null ? [] : [`cannot strike: ${cutBy} comes first`]),
      ].join(', '),
      isGhost: cutBy !== null,
    }
  })
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...rows.map(({ cells }) => cells[column]?.length ?? 0)))
  return [
    '',
    ...rows.map(({ cells, more, isGhost }) => {
      const line = `${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}  ${more}`
      return isGhost ? ink.faint(line) : line
    }),
  ]
}
