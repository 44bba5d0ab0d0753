// What people read. A failure says which step, what was asked, what was wanted where, and what came instead.

/** Where nothing is as it should be, a few lines tell it. */
const TOLD = 4

export function failureText(one, { failures }) {
  const [{ step, request }] = failures
  const lines = [`FAIL ${one.file} [${one.id}]${one.name === one.file ? '' : ` ${one.name}`}`]
  lines.push(`     ${step}${request === undefined ? '' : `: ${request}`}`)
  for (const { where, wanted, got } of failures.slice(0, TOLD)) {
    lines.push(`       ${where}`, `         wanted ${wanted}`, `         got    ${got}`)
  }
  if (failures.length > TOLD) lines.push(`       and ${failures.length - TOLD} more`)
  return lines.join('\n')
}

export function resultText(one, result) {
  const name = `${one.file} [${one.id}]`
  if (result.status === 'failed') return failureText(one, result)
  if (result.status === 'skipped') return `skip ${name}: ${result.reason}`
  if (result.status === 'expected') return `fail ${name}: expected, ${result.reason}`
  const again = result.round > 0 ? `, on try ${result.round + 1}` : ''
  return `ok   ${name} ${result.ms} ms${again}${result.reason === undefined ? '' : ` (${result.reason})`}`
}

const STATUSES = ['passed', 'failed', 'expected', 'skipped']

export function totals(results) {
  const count = Object.fromEntries(STATUSES.map((status) => [status, 0]))
  for (const { status } of results) count[status] += 1
  return count
}

/** A row for each folder. */
export function table(results) {
  const suites = new Map()
  for (const result of results) suites.set(result.suite, [...(suites.get(result.suite) ?? []), result])
  const rows = [...suites].sort(([a], [b]) => (a < b ? -1 : 1)).map(([suite, of]) => [suite, totals(of)])
  const width = Math.max(8, ...rows.map(([suite]) => suite.length))
  const line = (name, cells) => name.padEnd(width) + cells.map((cell) => String(cell).padStart(10)).join('')
  return [
    line('', STATUSES),
    ...rows.map(([suite, count]) =>
      line(
        suite,
        STATUSES.map((s) => count[s] || '·'),
      ),
    ),
  ].join('\n')
}

/** Nothing, unless some cases passed only when there was less to do. */
export function replayed(results) {
  const count = results.filter(({ status, round }) => status === 'passed' && round > 0).length
  return count === 0 ? '' : `${count} passed only when they were played again: this machine is busy.\n`
}

export function lastLine({ passed, failed, expected, skipped }) {
  return `${passed} passed, ${failed} failed${expected > 0 ? ` (and ${expected} as expected)` : ''}, ${skipped} skipped`
}
