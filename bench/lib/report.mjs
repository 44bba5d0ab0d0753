// Figures with their spread: a table for the terminal, Markdown and JSON for the record.
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, type } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const results = fileURLToPath(new URL('../results/', import.meta.url))

/** One row of a table: what was measured, its unit, and its value in every round. */
export function row(label, unit, values, target) {
  const sorted = [...values].sort((a, b) => a - b)
  const median = quantile(sorted, 0.5)
  return {
    label,
    unit,
    median,
    min: sorted[0],
    max: sorted.at(-1),
    rounds: values,
    ...(target === undefined ? {} : { target, met: meets(median, target) }),
  }
}

/** Two rows: the middle of the samples, and what 99 of 100 stay below. */
export function percentiles(label, unit, samples, target) {
  const sorted = [...samples].sort((a, b) => a - b)
  return [
    { ...row(`${label}: p50`, unit, [quantile(sorted, 0.5)]), samples: sorted.length },
    { ...row(`${label}: p99`, unit, [quantile(sorted, 0.99)], target), samples: sorted.length },
  ]
}

export const atLeast = (value) => ({ atLeast: value })
export const atMost = (value) => ({ atMost: value })

function meets(value, target) {
  return target.atLeast === undefined ? value <= target.atMost : value >= target.atLeast
}

export function quantile(sorted, q) {
  const place = (sorted.length - 1) * q
  const low = sorted[Math.floor(place)]
  return low + (sorted[Math.ceil(place)] - low) * (place - Math.floor(place))
}

/** Asked before the first scenario: then the load is what others make. */
export function machine() {
  const cores = cpus()
  return {
    load: loadavg()[0],
    date: new Date().toISOString(),
    node: process.version,
    cores: cores.length,
    cpu: cores[0]?.model.trim() ?? 'unknown',
    system: `${type()} ${release()}`,
  }
}

export function markdown({ title, taken, machine: { date, node, cores, cpu, system, load }, scenarios }) {
  const lines = [
    `# ${title}`,
    '',
    `Taken ${date.slice(0, 16).replace('T', ' ')} UTC in ${Math.round(taken)} s on ${cores} × ${cpu}, ${system}, Node ${node}.`,
    'Each figure is the median of its rounds, with the lowest and the highest. The machine is shared: compare within a',
    'run, and trust the ratios, whose two sides were measured in turn.',
  ]
  if (load > cores / 2) {
    const others = `Others kept the machine busy when this began (load ${load.toFixed(1)} on ${cores} cores):`
    lines.push('', `**${others} rates are too low, and times too long.**`)
  }
  for (const { name, question, rows, notes } of scenarios) {
    lines.push('', `## ${name}`, '', question, '')
    lines.push('| | median | min | max | rounds | target | |', '|---|--:|--:|--:|--:|--:|---|')
    for (const { label, unit, median, min, max, rounds, target, met } of rows) {
      const aim =
        target === undefined ? '' : target.atLeast === undefined ? `≤ ${target.atMost}` : `≥ ${target.atLeast}`
      const verdict = met === undefined ? '' : met ? 'met' : '**missed**'
      const figures = [median, min, max].map((value) => shown(value, unit)).join(' | ')
      lines.push(`| ${label} | ${figures} | ${rounds.length} | ${aim} | ${verdict} |`)
    }
    for (const note of notes ?? []) lines.push('', note)
  }
  return `${lines.join('\n')}\n`
}

function shown(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  const text = value.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, digits === 0 ? ' ' : '')
  return unit === '' ? text : `${text} ${unit}`
}

export function save(name, report) {
  mkdirSync(results, { recursive: true })
  const text = markdown(report)
  writeFileSync(join(results, `${name}.md`), text)
  writeFileSync(join(results, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`)
  return text
}
