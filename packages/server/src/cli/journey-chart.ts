/** A plan of a journey as a person reads it: one line per state, its time as a bar on the axis of the budget. */
import { LIMITED_BY, readableDuration, type JourneyPlan, type PlannedVisit } from '@curfew/core'
import { cleaned } from './frame/clean.ts'

export interface Paper {
  /** How many characters a line may have. */
  readonly width: number
  readonly colour: boolean
}

const MARKS = { itself: '█', 'own limit': '█', deadline: '█', lost: '░' } as const
const NARROWEST_BAR = 20

export function planText(given: JourneyPlan, paper: Paper): string {
  const plan = cleaned(given)
  const ink = inkOn(paper)
  const rows = plan.visits.map((visit) => rowOf(visit))
  const widths = [0, 1, 2, 3].map((column) => Math.max(...[HEAD, ...rows].map((cells) => cells[column]?.length ?? 0)))
  const barWidth = Math.max(NARROWEST_BAR, paper.width - widths.reduce((sum, width) => sum + width + 2, 0) - 2)
  const line = (cells: readonly string[], bar: string): string =>
    `${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column > 0)).join('  ')}  ${bar}`.trimEnd()
  const title = `${plan.name} ${plan.version}: ${readableDuration(plan.budgetMs)} in all (${LIMITED_BY[plan.limitedBy]})`
  return [
    ink.bold(title),
    '',
    ink.faint(line(HEAD, axis(plan, barWidth))),
    ...plan.visits.map((visit, index) => line(rows[index] ?? [], barOf(visit, plan, barWidth, ink))),
    '',
    ...endOf(plan, ink),
  ].join('\n')
}

const HEAD = ['state', 'starts', 'ends', 'may take']

function rowOf({
  path,
  type,
  startsAfterMs,
  endsAfterMs,
  ownLimitMs,
  effectiveMs,
  limit,
  attempts,
}: PlannedVisit): string[] {
  const depth = path.split('/').length - 1
  // A branch adds its own name: two parts for one level.
  const name = `${'  '.repeat(Math.ceil(depth / 2))}${depth === 0 ? path : path.split('/').slice(-2).join('/')}`
  const times = attempts === 1 ? '' : ` ×${String(attempts)}`
  const takesNone = ['choice', 'transform', 'succeed', 'fail'].includes(type)
  const may = limit === 'own' ? readableDuration(ownLimitMs ?? effectiveMs) : `${readableDuration(effectiveMs)} left`
  return [`${name}${times}`, momentOf(startsAfterMs), momentOf(endsAfterMs), takesNone ? '' : may]
}

const momentOf = (ms: number): string => (ms === 0 ? '0' : readableDuration(ms))

function barOf(visit: PlannedVisit, { budgetMs }: JourneyPlan, width: number, ink: Ink): string {
  const at = (ms: number): number => Math.min(width, Math.round((ms / budgetMs) * width))
  const from = Math.min(at(visit.startsAfterMs), width - 1)
  const isMoment = visit.endsAfterMs === visit.startsAfterMs
  const length = Math.max(1, at(visit.endsAfterMs) - from)
  const bar = isMoment ? '·' : MARKS[visit.endedBy].repeat(length)
  const paint = visit.endedBy === 'deadline' ? ink.red : visit.endedBy === 'own limit' ? ink.yellow : ink.plain
  const why = { itself: '', 'own limit': ' its own limit', deadline: '', lost: ' lost' }[visit.endedBy]
  const room = width - from - length
  const note = why !== '' && room >= why.length ? ink.faint(why) : ''
  return `${' '.repeat(from)}${paint(bar)}${visit.endedBy === 'deadline' ? ink.red('✂') : note}`
}

function axis({ budgetMs }: JourneyPlan, width: number): string {
  const end = readableDuration(budgetMs)
  return `0${'─'.repeat(Math.max(0, width - 1 - end.length))}${end}`
}

function endOf(plan: JourneyPlan, ink: Ink): string[] {
  const { end, neverStarts, notOnTheWay, wouldTakeMs } = plan
  const at = readableDuration(end.afterMs)
  const error = end.error === null ? '' : `: ${end.error.code}: ${end.error.reason}`
  const lines = {
    Success: ink.green(`It succeeds after ${at}, with ${readableDuration(plan.budgetMs - end.afterMs)} to spare.`),
    Fail: ink.yellow(`It fails after ${at} in ${end.path}${error}`),
    Timeout: ink.red(`✂ It times out after ${at}, in ${end.path}${error}`),
    Loop: ink.red(`It loops at ${end.path} without time passing; only its deadline would end it.`),
  }
  const told = [lines[end.kind]]
  if (neverStarts.length > 0) told.push(`Never starts: ${neverStarts.join(', ')}`)
  if (end.kind === 'Timeout')
    told.push(
      wouldTakeMs === null
        ? 'Without a deadline nothing would end it.'
        : `Without a deadline it would take ${readableDuration(wouldTakeMs)}.`,
    )
  if (notOnTheWay.length > 0) told.push(ink.faint(`Not reached: ${notOnTheWay.join(', ')}`))
  return told
}

/** How much of a budget is spent, as a bar. */
export function budgetBar(spentMs: number, budgetMs: number, width: number): string {
  const share = budgetMs <= 0 ? 1 : Math.min(1, Math.max(0, spentMs / budgetMs))
  const full = Math.round(share * width)
  return `${'█'.repeat(full)}${'░'.repeat(width - full)} ${String(Math.floor(share * 100))} %`
}

function pad(text: string, width: number, isRight: boolean): string {
  return isRight ? text.padStart(width) : text.padEnd(width)
}

type Paint = (text: string) => string

export interface Ink {
  readonly plain: Paint
  readonly bold: Paint
  readonly faint: Paint
  readonly red: Paint
  readonly yellow: Paint
  readonly green: Paint
}

export function inkOn({ colour }: Pick<Paper, 'colour'>): Ink {
  const paint = (code: number): Paint => (colour ? (text) => `\u001b[${String(code)}m${text}\u001b[0m` : (text) => text)
  return { plain: (text) => text, bold: paint(1), faint: paint(2), red: paint(31), yellow: paint(33), green: paint(32) }
}
