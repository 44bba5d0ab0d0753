/**
 * The budget timeline: core's model of a job's time in ink. It works out no deadline of its own; everything it draws, and
 * what it says, comes from `timeline` in core for the instant that is shown.
 */
import { axisOf, type Lane, type Mark, type Timeline as Model, type TimelineSpan } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { clockTime, length, timeOfDay } from './time.ts'
import { sourceSign, Source } from './ui.tsx'

const LABEL = 62
const TOP = 26
const BAR = 16
const ROW = 15
const FOLD = 48
const CHARACTER = 6.7

const NAMES: Readonly<Record<string, string>> = {
  soft_deadline: 'soft',
  asked_to_stop: 'asked to stop',
  hard_deadline: 'hard',
  total: 'total',
  heartbeat: 'stalls',
  worker_death: 'worker dead',
  visibility: 'reservation',
  ttl: 'ttl',
  expires_at: 'expires',
  scheduled_at: 'scheduled',
  retry: 'retry',
}
const SIGNS = new Set(['beat', 'progress', 'checkpoint'])

interface Flag {
  readonly x: number
  readonly text: string
  readonly anchor: 'start' | 'end'
  readonly row: number
}

/** Which moment the line marks: now, one that is replayed, or none where everything is over. */
export type Moment = 'now' | 'then' | null

export function Timeline({ model, line }: { model: Model; line: Moment }): JSX.Element {
  const holder = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(900)
  const [isTable, setTable] = useState(false)
  useEffect(() => {
    const element = holder.current
    if (element === null) return
    const look = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setWidth(Math.max(280, Math.floor(entry.contentRect.width)))
    })
    look.observe(element)
    return () => {
      look.disconnect()
    }
  }, [])
  return (
    <div ref={holder}>
      <p class="next" aria-live="off">
        {model.sentence}
      </p>
      <Drawing model={model} width={width} line={line} />
      {model.hiddenAttempts > 0 ? (
        <p class="soft">{String(model.hiddenAttempts)} earlier attempts are not drawn.</p>
      ) : null}
      <p>
        <button
          type="button"
          aria-expanded={isTable}
          onClick={() => {
            setTable(!isTable)
          }}
        >
          {isTable ? 'Hide the table' : 'Show as a table'}
        </button>
      </p>
      {isTable ? <AsTable model={model} /> : null}
    </div>
  )
}

function Drawing({ model, width, line }: { model: Model; width: number; line: Moment }): JSX.Element {
  const plot = width - LABEL - 14
  const axis = axisOf(model, plot, FOLD)
  const x = (at: number): number => LABEL + axis.x(at as typeof model.now)
  let y = TOP
  const lanes = model.lanes.map((lane) => {
    const flags = flagsOf(lane, x, width)
    const top = y
    y += BAR + 8 + ROW * Math.max(1, ...flags.map(({ row }) => row + 1)) + 6
    return { lane, flags, top }
  })
  const height = y
  const atNow = x(model.now)
  return (
    <svg
      class="timeline"
      width={width}
      height={height}
      viewBox={`0 0 ${String(width)} ${String(height)}`}
      role="img"
      aria-label={`Timeline. ${model.headline}. ${model.sentence}`}
    >
      <defs>
        <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <line class="hatchline" x1="1" x2="1" y1="0" y2="6" />
        </pattern>
        <pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">
          <circle class="dot" cx="2" cy="2" r="1" />
        </pattern>
      </defs>
      {model.bands.map((band) => (
        <g key={`${band.kind}${String(band.from)}`}>
          <rect
            class={band.kind}
            x={x(band.from)}
            y={TOP - 4}
            width={Math.max(1, x(band.to) - x(band.from))}
            height={height - TOP}
          />
          <text class="faint" x={x(band.from) + 3} y={height - 2}>
            {band.kind === 'away' ? `server away, ${length(band.to - band.from)} credited` : 'queue paused'}
          </text>
        </g>
      ))}
      {ticksOf(model, plot).map((at) => (
        <g key={at}>
          <line class="grid" x1={x(at)} x2={x(at)} y1={TOP - 6} y2={height} />
          {(line !== null && Math.abs(x(at) - atNow) < 42) || x(at) > width - 24 ? null : (
            <text class="faint" x={x(at)} y={12} text-anchor="middle">
              {timeOfDay(at)}
            </text>
          )}
        </g>
      ))}
      {model.folds.map((fold) => (
        <g key={fold.from}>
          <rect class="away" x={x(fold.from)} y={TOP - 4} width={FOLD} height={height - TOP} />
          {/* Below the last lane: there is nothing that it could cover. */}
          <text class="faint" x={x(fold.from) + FOLD / 2} y={height - 10} text-anchor="middle">
            ≈ {length(fold.to - fold.from)}
          </text>
        </g>
      ))}
      {lanes.map(({ lane, flags, top }) => (
        <g key={lane.kind + lane.name}>
          <text class={lane.isForeseen ? 'faint' : ''} x={0} y={top + BAR - 4}>
            {lane.name}
          </text>
          <line class="base" x1={LABEL} x2={width - 14} y1={top + BAR / 2} y2={top + BAR / 2} />
          {lane.spans.map((span, index) => (
            <Span key={index} span={span} x={x} top={top} />
          ))}
          {lane.marks.map((mark, index) => (
            <MarkLine key={index} mark={mark} at={x(mark.at)} top={top} />
          ))}
          {flags.map((flag, index) => (
            <text key={index} x={flag.x} y={top + BAR + 13 + flag.row * ROW} text-anchor={flag.anchor}>
              {flag.text}
            </text>
          ))}
        </g>
      ))}
      {line === null ? null : (
        <>
          <line class="now" x1={atNow} x2={atNow} y1={TOP - 8} y2={height} />
          <text class="nowtext" x={Math.min(Math.max(atNow, LABEL + 10), width - 24)} y={12} text-anchor="middle">
            {line}
          </text>
        </>
      )}
    </svg>
  )
}

function Span({ span, x, top }: { span: TimelineSpan; x: (at: number) => number; top: number }): JSX.Element {
  const from = x(span.from)
  // Too short to be seen, it still happened.
  const wide = Math.max(span.kind === 'overshoot' ? 3 : 1, x(span.to) - from)
  return (
    <rect
      class={`${span.kind}${span.isFuture ? ' future' : ''}`}
      x={from}
      y={top}
      width={wide}
      height={BAR}
      rx={span.kind === 'overshoot' ? 0 : 2}
    >
      <title>{spanWords(span)}</title>
    </rect>
  )
}

function MarkLine({ mark, at, top }: { mark: Mark; at: number; top: number }): JSX.Element {
  const ghost = mark.cutBy === undefined ? '' : ' ghost'
  const title = <title>{markWords(mark)}</title>
  if (mark.kind === 'late_result')
    return (
      <g class="late_result">
        {title}
        <line x1={at - 4} x2={at + 4} y1={top + 4} y2={top + 12} />
        <line x1={at + 4} x2={at - 4} y1={top + 4} y2={top + 12} />
      </g>
    )
  if (SIGNS.has(mark.kind))
    return (
      <line
        class={mark.kind === 'beat' ? 'beat' : 'mark'}
        x1={at}
        x2={at}
        y1={top + (mark.kind === 'beat' ? 6 : 2)}
        y2={top + BAR}
      >
        {title}
      </line>
    )
  const kind = mark.kind === 'asked_to_stop' ? 'soft_deadline' : mark.kind
  return (
    <line class={`mark ${kind}${ghost}`} x1={at} x2={at} y1={top - 4} y2={top + BAR + 4}>
      {title}
    </line>
  )
}

/** What is written below a lane; texts that would overlap go to the next row. */
function flagsOf(lane: Lane, x: (at: number) => number, width: number): Flag[] {
  const ends: number[] = []
  const flags: Flag[] = []
  const place = (at: number, text: string): void => {
    const long = text.length * CHARACTER
    const anchor = at + long > width - 4 ? 'end' : 'start'
    const left = anchor === 'start' ? at : at - long
    let row = ends.findIndex((end) => end + 8 < left)
    if (row < 0) row = ends.length
    ends[row] = left + long
    flags.push({ x: at, text, anchor, row })
  }
  for (const mark of lane.marks) {
    const text = flagText(mark)
    if (text !== null) place(x(mark.at), text)
  }
  for (const span of lane.spans)
    if (span.kind === 'overshoot' && lane.kind === 'attempt') place(x(span.to) + 4, `+${length(span.overshootMs ?? 0)}`)
  for (const mark of lane.edges.slice(0, 2))
    if (mark.limit !== undefined)
      place(width - 14, `${NAMES[mark.kind] ?? mark.kind} in ${length(mark.at - lane.from)} →`)
  return flags
}

function flagText(mark: Mark): string | null {
  if (mark.kind === 'ended') return mark.text ?? 'ended'
  const name = NAMES[mark.kind]
  if (name === undefined) return null
  const { limit } = mark
  const size = limit?.limitMs === undefined ? '' : ` ${length(limit.limitMs)}`
  const source = limit === undefined ? '' : ` ${sourceSign(limit.source)}`
  return mark.cutBy === undefined
    ? `${name}${size}${source}`
    : `${name}${size}, cut by ${mark.cutBy.replaceAll('_', ' ')}`
}

const STEPS = [
  100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000,
  21_600_000, 86_400_000,
]

function ticksOf({ from, to, folds }: Model, plot: number): number[] {
  const foldedMs = folds.reduce((sum, fold) => sum + (fold.to - fold.from), 0)
  const most = Math.max(2, Math.floor(plot / 90))
  const step = STEPS.find((size) => size >= 1_000 && (to - from - foldedMs) / size <= most) ?? 86_400_000
  const ticks: number[] = []
  for (let at = Math.ceil(from / step) * step; at <= to && ticks.length < 200; at += step)
    if (!folds.some((fold) => at > fold.from && at < fold.to)) ticks.push(at)
  return ticks
}

const spanName = ({ kind, name, isFuture }: TimelineSpan): string =>
  `${kind}${name === undefined ? '' : ` ${name}`}${isFuture ? ' (to come)' : ''}`

const spanWords = (span: TimelineSpan): string =>
  `${spanName(span)}: ${length(span.to - span.from)}, ${clockTime(span.from)} to ${clockTime(span.to)}`

function markWords(mark: Mark): string {
  const limit =
    mark.limit === undefined
      ? ''
      : `, ${mark.limit.limit}${mark.limit.limitMs === undefined ? '' : ` ${length(mark.limit.limitMs)}`}`
  return `${mark.kind.replaceAll('_', ' ')} at ${clockTime(mark.at)}${limit}${mark.text === undefined ? '' : `: ${mark.text}`}`
}

/** The same for people who do not see the drawing, and for readers who want the numbers. */
function AsTable({ model }: { model: Model }): JSX.Element {
  const rows = model.lanes.flatMap((lane) => [
    ...lane.spans.map((span) => ({
      lane: lane.name,
      at: span.from,
      what: spanName(span),
      long: length(span.to - span.from),
      source: undefined as string | undefined,
    })),
    ...[...lane.marks, ...lane.edges].map((mark) => ({
      lane: lane.name,
      at: mark.at,
      what: mark.text ?? `${mark.kind.replaceAll('_', ' ')}${mark.isFuture ? ' (to come)' : ''}`,
      long: mark.limit?.limitMs === undefined ? '' : length(mark.limit.limitMs),
      source: mark.limit?.source,
    })),
  ])
  return (
    <div class="scroll" role="region" aria-label="Timeline as a table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {['Lane', 'When', 'What', 'Length', 'Set by'].map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <td>{row.lane}</td>
              <td>{clockTime(row.at)}</td>
              <td>{row.what}</td>
              <td>{row.long}</td>
              <td>{row.source === undefined ? null : <Source source={row.source} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
