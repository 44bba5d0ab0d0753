/**
 * One run on one page: its budget as a bar, and below it every state as a bar on the same axis, with the deadline and
 * how it ended. Plain HTML that needs no script and loads nothing; while the run goes on, the page reloads itself.
 *
 * Everything that comes from a definition or from data is escaped. Data has its secrets masked (core/journey/view/history.ts).
 */
import {
  clampInWords,
  LIMITED_BY,
  readableDuration,
  runLateness,
  runUrl,
  type Run,
  type RunExplanation,
  type StateSpan,
} from '@curfew/core'
import { escape, pageOf } from './page.ts'

/** Bars are drawn on so many units, whatever the width of the window. */
const WIDTH = 1_000
const REFRESH_S = 5
/** A run that has spent less of its budget than this is drawn on an axis of its own: on the axis of the budget its bars would be too thin. */
const LEAST_SHARE = 0.1

interface Axis {
  readonly ms: number
  /** Where the deadline is on it; null: beyond. */
  readonly deadline: number | null
}

export function journeyPage(run: Run, explained: RunExplanation): string {
  const { budget } = explained
  const axis = axisOf(explained)
  const isZoomed = axis.deadline === null
  return pageOf({
    title: `${explained.journeyName} · ${phrase(explained)}`,
    refreshS: explained.ending === undefined ? REFRESH_S : null,
    body: `
<header>
  <p class="kind">${escape(explained.kind)} · version ${escape(explained.journeyVersion)}</p>
  <h1>${escape(explained.journeyName)} <span class="badge ${toneOf(explained)}">${escape(phrase(explained))}</span></h1>
  <p class="id">${escape(explained.journeyId)}</p>
</header>
${endingOf(explained)}
<section aria-labelledby="budget">
  <h2 id="budget">Budget</h2>
  ${budgetBar(explained)}
  <dl>
    <div><dt>Allowed</dt><dd>${readableDuration(budget.limitMs)}<small>${escape(LIMITED_BY[budget.limitedBy])}</small></dd></div>
    <div><dt>Spent</dt><dd>${readableDuration(budget.spentMs)}<small>${percent(budget.spentMs / Math.max(1, budget.limitMs))}</small></dd></div>
    ${leftOf(explained)}
    <div><dt>Started</dt><dd>${time(budget.startedAt)}</dd></div>
    <div><dt>Deadline</dt><dd>${time(budget.deadlineAt)}</dd></div>
  </dl>
</section>
<section aria-labelledby="states">
  <h2 id="states">States</h2>
  ${isZoomed ? `<p class="note">Shown are the first ${readableDuration(axis.ms)} of ${readableDuration(budget.limitMs)}.</p>` : ''}
  ${explained.omitted > 0 ? `<p class="note">${String(explained.omitted)} earlier states are not kept.</p>` : ''}
  <table>
    <thead><tr><th scope="col">State</th><th scope="col" class="bar">${axisMarks(axis)}</th><th scope="col" class="took">Took</th></tr></thead>
    <tbody>
${explained.states.map((span) => rowOf(span, axis)).join('\n')}
    </tbody>
  </table>
</section>
${dataOf(explained)}
<nav>${linksOf(run)}</nav>`,
  })
}

export function noJourneyPage(id: string): string {
  return pageOf({
    title: 'No such run',
    refreshS: null,
    body: `<header><h1>Run not found</h1><p class="id">${escape(id)}</p></header>
<p>Runs are kept for 7 days after their end.</p>`,
  })
}

function phrase({ phase, ending }: RunExplanation): string {
  if (ending === undefined) return 'running'
  if (ending.terminationKind === 'Timeout') return 'timed out'
  if (ending.terminationKind === 'Cancel') return 'cancelled'
  return phase === 'SUCCEEDED' ? 'succeeded' : 'failed'
}

const toneOf = ({ phase, ending }: RunExplanation): string =>
  ending === undefined
    ? 'running'
    : phase === 'SUCCEEDED'
      ? 'good'
      : ending.terminationKind === 'Cancel'
        ? 'calm'
        : 'bad'

function endingOf({ ending }: RunExplanation): string {
  if (ending === undefined) return ''
  const { error, terminationKind, terminatedAtState, marginMs, overshootMs } = ending
  const how =
    terminationKind === 'Timeout'
      ? `Its time was up in <code>${escape(terminatedAtState)}</code>${overshootMs === undefined ? '' : `, ${runLateness(ending)}`}.`
      : `Ended in <code>${escape(terminatedAtState)}</code>, ${readableDuration(marginMs ?? 0)} before the deadline.`
  const why = error === undefined ? '' : `<p><strong>${escape(error.code)}</strong> ${escape(error.reason)}</p>`
  return `<div class="ending"><p>${how}</p>${why}</div>`
}

function leftOf({ budget, ending }: RunExplanation): string {
  const left = ending === undefined ? budget.remainingMs : (ending.marginMs ?? 0)
  const label = ending === undefined ? 'Left' : 'Left over'
  return `<div><dt>${label}</dt><dd>${readableDuration(left)}</dd></div>`
}

function budgetBar({ budget, phase, ending }: RunExplanation): string {
  const share = Math.min(1, budget.spentMs / Math.max(1, budget.limitMs))
  const tone = toneOf({ phase, ending } as RunExplanation)
  return `<svg class="budget" viewBox="0 0 ${String(WIDTH)} 20" preserveAspectRatio="none" role="img" aria-label="${percent(share)} of the budget spent">
    <rect class="track" width="${String(WIDTH)}" height="20"/><rect class="${tone}" width="${units(share)}" height="20"/>
  </svg>`
}

// ---- The axis ----

function axisOf({ budget }: RunExplanation): Axis {
  const { limitMs, spentMs } = budget
  if (spentMs < limitMs * LEAST_SHARE) return { ms: Math.max(1, Math.ceil(spentMs * 1.05)), deadline: null }
  // A little more than the budget, so that its end can be seen.
  const ms = Math.ceil(Math.max(limitMs, spentMs) * 1.03)
  return { ms, deadline: limitMs / ms }
}

const STEPS = [1, 2, 5]
const CLOCK_STEPS = [1, 5, 10, 15, 30].map((minutes) => minutes * 60_000)
const LONG_STEPS = [1, 2, 3, 6, 12, 24, 48, 72, 168].map((hours) => hours * 3_600_000)

/** Round lengths, at most six of them. */
function stepOf(ms: number): number {
  for (let size = 1; size <= 10_000; size *= 10)
    for (const step of STEPS) if (step * size <= 30_000 && ms / (step * size) <= 6) return step * size
  return [30_000, ...CLOCK_STEPS, ...LONG_STEPS].find((step) => ms / step <= 6) ?? 30 * 86_400_000
}

function axisMarks({ ms, deadline }: Axis): string {
  const step = stepOf(ms)
  const marks: string[] = []
  for (let at = 0; at <= ms; at += step) {
    const share = at / ms
    // The label of the deadline takes this space.
    if (deadline !== null && Math.abs(share - deadline) < 0.07) continue
    marks.push(
      `<text x="${place(share)}%" y="14"${at === 0 ? '' : ' text-anchor="middle"'}>${at === 0 ? '0' : readableDuration(at)}</text>`,
    )
  }
  if (deadline !== null)
    marks.push(`<text class="deadline" x="${place(deadline)}%" y="14" text-anchor="end">deadline</text>`)
  return `<svg class="axis" role="presentation">${marks.join('')}</svg>`
}

// ---- The states ----

function rowOf(span: StateSpan, axis: Axis): string {
  const depth = span.state.split('/').length - 1
  const [from, length] = [span.startsAfterMs / axis.ms, span.durationMs / axis.ms]
  const { effectiveMs } = span
  const limit = effectiveMs === undefined ? '' : rect('limit', from, Math.min(1 - from, effectiveMs / axis.ms), 1, 12)
  const deadline =
    axis.deadline === null
      ? ''
      : `<line class="deadline" x1="${units(axis.deadline)}" x2="${units(axis.deadline)}" y1="0" y2="14"/>`
  const notes = [span.note ?? '', clampInWords(span)].filter((text) => text !== '')
  const note = notes.length === 0 ? '' : ` <em>${escape(notes.join('; '))}</em>`
  const own =
    effectiveMs === undefined || span.type === 'timer' ? '' : `<small>of ${readableDuration(effectiveMs)}</small>`
  const label = `${span.to === undefined ? 'since' : 'from'} ${readableDuration(span.startsAfterMs)} for ${readableDuration(span.durationMs)}`
  return `      <tr><th scope="row"><span class="in${String(Math.min(depth, 6))}">${escape(shortOf(span.state))}</span> <small>${escape(span.type)}</small>${note}</th>
        <td class="bar"><svg viewBox="0 0 ${String(WIDTH)} 14" preserveAspectRatio="none" role="img" aria-label="${label}"><rect class="track" width="${String(WIDTH)}" height="14"/>${limit}${rect(`span ${classOf(span)}`, from, Math.max(length, 0.002), 2, 10)}${deadline}</svg></td>
        <td class="took">${readableDuration(span.durationMs)}${own}</td></tr>`
}

// ---- What it worked on ----

/** Longer texts are cut: the history has all of it. */
const MAX_SHOWN = 2_000

function dataOf({ input, states }: RunExplanation): string {
  const parts = [
    ...(input === undefined ? [] : [['Input', input] as const]),
    ...states.flatMap(({ state, visit, wrote }) =>
      wrote === undefined ? [] : [[`${state} wrote (step ${String(visit)})`, wrote] as const],
    ),
  ]
  if (parts.length === 0) return ''
  return `<section aria-labelledby="data">
  <h2 id="data">Data</h2>
  <p class="note">Members that look like secrets are masked.</p>
${parts.map(([title, value]) => `  <details><summary>${escape(title)}</summary><pre>${escape(shownJson(value))}</pre></details>`).join('\n')}
</section>`
}

function shownJson(value: object): string {
  const text = JSON.stringify(value, null, 2)
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}\n…` : text
}

const GROUPS: Readonly<Record<string, string>> = {
  task: 'work',
  wait: 'waiting',
  webhook: 'waiting',
  timer: 'waiting',
  parallel: 'around',
  subjourney: 'around',
  fail: 'bad',
  succeed: 'good',
}

const classOf = ({ type, to }: StateSpan): string => `${GROUPS[type] ?? 'thought'}${to === undefined ? ' open' : ''}`

/** The last part of a path; the indentation tells of the rest. */
const shortOf = (path: string): string => path.split('/').slice(-2).join('/')

function rect(name: string, from: number, length: number, y: number, height: number): string {
  return `<rect class="${name}" x="${units(from)}" width="${units(length)}" y="${String(y)}" height="${String(height)}"/>`
}

const units = (share: number): string => String(Math.round(share * WIDTH * 10) / 10)
const place = (share: number): string => String(Math.round(share * 1_000) / 10)
const percent = (share: number): string =>
  share > 0 && share < 0.001 ? '&lt; 0.1 %' : `${String(Math.round(share * 1_000) / 10)} %`
const time = (at: string): string => `<time datetime="${at}">${at.replace('T', ' ').replace('Z', ' UTC')}</time>`

function linksOf({ id, compensates, compensatedBy }: Run): string {
  const here = runUrl(id)
  const links = [
    [here, 'Status'],
    [`${here}/result`, 'Result'],
    [`${here}/explain`, 'Explanation'],
    [`${here}/history`, 'History'],
    ...(compensates === null ? [] : [[pageUrl(compensates.id), 'Cleans up after this run']]),
    ...(compensatedBy === null ? [] : [[pageUrl(compensatedBy), 'Cleaned up by this run']]),
  ]
  return links.map(([href = '', label = '']) => `<a href="${escape(href)}">${label}</a>`).join(' ')
}

const pageUrl = (id: string): string => `/journeys/${encodeURIComponent(id)}`
