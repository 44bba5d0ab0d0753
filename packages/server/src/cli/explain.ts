/** `curfew explain ID`: the time of one job, drawn from the same model as the board. */
import { explain, readBoardJob, timeline } from '@curfew/core'
import { explainText } from './explain-text.ts'
import { EXIT } from './frame/exit.ts'
import type { Call, Command } from './frame/command.ts'
import { ONE } from './frame/flags.ts'
import { Remote, refusal } from './frame/remote.ts'

export const EXPLAIN: Command = {
  name: 'explain',
  args: 'ID',
  summary: 'show where the time of a job went, which limits hold it, and what happens next',
  more: [
    'Draws the life of a job: waiting, attempts, grace and backoff against every limit, what happens next, and what happened.',
    'Times are those of the clock of the server, shown in your time zone or, with --utc, in UTC.',
    '',
    '  ▒ waiting   █ attempt   ▨ grace   ┄ backoff   ▓ overshoot   ▬ until a sign of life is due   ≈ folded',
    '  ├ start   ┤ end   ╎ asked to stop   ┃ the attempt or the job ends   ┆ too old to start   ┊ stalls or lapses',
    '  ▹ scheduled or retried   ╵ heartbeat   ◆ progress   ■ checkpoint   ✕ result that came too late   → beyond the axis',
    '  │ now: what is right of it is foreseen, if workers fetch and live but no attempt ends by itself',
    '',
    '  ● set at enqueue   ◆ handler   ▲ job type   ■ queue   ◇ fetch   ⊤ cap   ○ default   ↑ parent   ⇑ workflow   ↻ retry policy',
  ],
  options: ONE,
  run: runExplain,
}

async function runExplain({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const answer = await server.ask('GET', `/api/v1/board/jobs/${encodeURIComponent(flags.names[0] ?? '')}`)
  if (answer.status !== 200) throw refusal(answer)
  const document = readBoardJob(answer.body)
  const { job, life, now, heldBy, place, steps } = document
  if (flags.has('json')) {
    const explained = explain(job, life, now, heldBy, steps)
    terminal.write(JSON.stringify({ ...explained, place, timeline: timeline(document, now) }, null, 2))
  } else terminal.write(explainText(document, now, terminal, flags.has('utc')))
  return EXIT.fine
}
