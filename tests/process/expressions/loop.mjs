/**
 * Evaluates its input, line by line, beside a timer of 10 ms, and tells for each how it ended and for how long the
 * timer could not fire. Runs what is in dist.
 */
import { createInterface } from 'node:readline'
import { clockFrom } from '../../../packages/core/dist/index.js'
import { openExpressions } from '../../../packages/server/dist/expressions/open-expressions.js'
import { nodeHost } from '../../../packages/server/dist/host.js'

const isolation = process.argv[2] ?? 'in-process'
const expressions = openExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 }, { isolation })

let lastMs = performance.now()
let longestMs = 0
setInterval(() => {
  const nowMs = performance.now()
  longestMs = Math.max(longestMs, nowMs - lastMs)
  lastMs = nowMs
}, 10).unref()

const tick = () => new Promise((resolve) => setTimeout(resolve, 15))

for await (const line of createInterface({ input: process.stdin })) {
  const { texts, document } = JSON.parse(line)
  await tick()
  longestMs = 0
  const outcomes = await Promise.all(
    texts.map((text) =>
      expressions.evaluate('jsonata', text, document, { budgetMs: 60_000 }).then(
        (value) => ({ value }),
        ({ code, message }) => ({ code, message }),
      ),
    ),
  )
  await tick()
  const { rss } = process.memoryUsage()
  process.stdout.write(`${JSON.stringify({ outcomes, longestMs, rssMb: rss / 1_048_576 })}\n`)
}
await expressions.close()
