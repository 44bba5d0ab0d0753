/** `curfew explain ID`: the time of one job, drawn from the same model as the board. */
import { explain, readBoardJob, timeline } from '@curfew/core'
import { explainText } from './explain-text.ts'
import { EXIT } from './journey-exit.ts'
import { readFlags, SERVER_FLAGS, type Terminal } from './journey-flags.ts'
import { JourneyServer, refusal } from './journey-server.ts'

const USAGE = 'curfew explain ID [--url URL] [--token TOKEN] [--json]'

export const EXPLAIN_HELP = [
  `Usage: ${USAGE}`,
  '',
  'Draws the life of a job: waiting, attempts, grace and backoff against every limit, what happens next, and what happened.',
  'Times are UTC, on the clock of the server.',
  '',
  '  ▒ waiting   █ attempt   ▨ grace   ┄ backoff   ▓ overshoot   ▬ until a sign of life is due   ≈ folded',
  '  ├ start   ┤ end   ╎ asked to stop   ┃ the attempt or the job ends   ┆ too old to start   ┊ stalls or lapses',
  '  ▹ scheduled or retried   ╵ heartbeat   ◆ progress   ■ checkpoint   ✕ result that came too late   → beyond the axis',
  '  │ now: what is right of it is foreseen, if workers fetch and live but no attempt ends by itself',
  '',
  '  ● set at enqueue   ◆ handler   ▲ job type   ■ queue   ◇ fetch   ⊤ cap   ○ default   ↑ parent   ⇑ workflow   ↻ retry policy',
  '',
  '  --url URL (CURFEW_URL) [http://127.0.0.1:8080], --token TOKEN (CURFEW_TOKEN), --json prints what a program reads.',
  '  NO_COLOR=1 draws without colour.',
  '',
  'Exit codes:  0 fine   1 refused, not found, or no answer   2 wrong usage',
].join('\n')

export async function runExplain(args: readonly string[], terminal: Terminal): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    terminal.write(EXPLAIN_HELP)
    return EXIT.fine
  }
  const flags = readFlags(args, SERVER_FLAGS, ['ID'], USAGE)
  const server = new JourneyServer(flags, terminal)
  const answer = await server.ask('GET', `/api/v1/board/jobs/${encodeURIComponent(flags.names[0] ?? '')}`)
  if (answer.status !== 200) throw refusal(answer)
  const document = readBoardJob(answer.body)
  const { job, life, now, heldBy, place, steps } = document
  const explained = explain(job, life, now, heldBy, steps)
  const drawn = timeline(document, now)
  if (flags.has('json')) terminal.write(JSON.stringify({ ...explained, place, timeline: drawn }, null, 2))
  else terminal.write(explainText({ document, drawn, text: explained.text }, terminal))
  return EXIT.fine
}
