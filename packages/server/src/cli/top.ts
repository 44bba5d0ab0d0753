/** `curfew top`: asks the server every second, draws four times a second, listens to keys. */
import { emitKeypressEvents } from 'node:readline'
import { instant, readBoardJob } from '@curfew/core'
import { onAbort } from '../engine/kernel/until.ts'
import { SettingsError } from '../settings.ts'
import type { Call, Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { ONE } from './frame/flags.ts'
import { Remote } from './frame/remote.ts'
import { TopScreen, type Key } from './top-screen.ts'
import { earliestOf, topLines, type TopModel } from './top-view.ts'

const ASK_EVERY_MS = 1_000
const DRAW_EVERY_MS = 250
/** The rest is not about to happen. */
const MAX_JOBS = 30

interface Health {
  readonly server_version: string
  readonly server_time: string
  readonly uptime_seconds?: number
  readonly backend: { readonly type?: string }
}

/** Active jobs, and those whose deadlines lie nearest; and one more, where it is named. */
export async function loadTop(server: Remote, also: string | null = null): Promise<TopModel> {
  const [health, stats, risks, active, forecast] = await Promise.all([
    server.call('GET', '/ojs/v1/health') as Promise<Health>,
    server.call('GET', '/ojs/v1/admin/stats') as Promise<{ jobs: Readonly<Record<string, number>> }>,
    server.call('GET', '/ojs/v1/admin/at-risk?limit=50') as Promise<{ items: readonly { latest_start: string }[] }>,
    server.call('GET', `/api/v1/board/jobs?state=active,retryable&limit=${String(MAX_JOBS)}`) as Promise<{
      items: readonly { id: string }[]
    }>,
    server.call('GET', '/api/v1/board/forecast?minutes=60') as Promise<{ next: readonly { job_id: string }[] }>,
  ])
  const near = [...forecast.next.map(({ job_id: id }) => id), ...active.items.map(({ id }) => id)]
  const ids = new Set([...(also === null ? [] : [also]), ...near])
  const answers = await Promise.all(
    [...ids].slice(0, MAX_JOBS).map((id) => server.ask('GET', `/api/v1/board/jobs/${encodeURIComponent(id)}`)),
  )
  // A job may be gone since it was listed.
  const jobs = answers.filter(({ status }) => status === 200).map(({ body }) => readBoardJob(body))
  return {
    now: instant(Math.max(Date.parse(health.server_time), ...jobs.map(({ now }) => now))),
    version: health.server_version,
    store: health.backend.type ?? '',
    upSeconds: Math.round(health.uptime_seconds ?? 0),
    counts: stats.jobs,
    late: risks.items.length,
    lateAt: earliestOf(risks.items.map(({ latest_start: time }) => time)),
    jobs,
  }
}

async function runTop({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const { stdin, stdout } = process
  if (flags.has('once')) {
    const model = await loadTop(server)
    const state = { now: model.now, selected: -1, filter: '', prompt: '', rows: model.jobs.length + 6 }
    terminal.write(topLines(model, state, terminal).join('\n').trimEnd())
    return EXIT.fine
  }
  if (!stdin.isTTY || !stdout.isTTY) throw new SettingsError('curfew top needs a terminal. Print it once with --once.')
  const parts = {
    colour: terminal.colour,
    isUtc: flags.has('utc'),
    monotonicMs: () => performance.now(),
    pause: (queue: string) => server.ask('POST', `/ojs/v1/queues/${encodeURIComponent(queue)}/pause`),
  }
  const top = new TopScreen(parts, await loadTop(server))
  const draw = (): void => void stdout.write(top.draw(stdout.columns, stdout.rows))
  let isAsking = false
  const ask = setInterval(() => {
    if (isAsking) return
    isAsking = true
    loadTop(server, top.explained)
      .then(
        (model) => {
          top.take(model)
        },
        (error: unknown) => {
          top.fail(messageOf(error))
        },
      )
      .finally(() => {
        isAsking = false
      })
  }, ASK_EVERY_MS)
  const tick = setInterval(draw, DRAW_EVERY_MS)
  // The other screen, without a cursor.
  stdout.write('\u001b[?1049h\u001b[?25l')
  emitKeypressEvents(stdin)
  stdin.setRawMode(true)
  try {
    draw()
    return await new Promise<number>((resolve) => {
      // A signal, or a terminal that is closed, must not leave the screen as it is.
      onAbort(terminal.signal === undefined ? [] : [terminal.signal], () => {
        resolve(EXIT.interrupted)
      })
      stdin.on('end', () => {
        resolve(EXIT.interrupted)
      })
      stdin.on('keypress', (_: unknown, key: Key) => {
        top.press(key).then(
          (code) => {
            if (code === null) draw()
            else resolve(code)
          },
          (error: unknown) => {
            top.fail(messageOf(error))
          },
        )
      })
    })
  } finally {
    clearInterval(ask)
    clearInterval(tick)
    stdin.removeAllListeners('keypress')
    stdin.setRawMode(false)
    stdin.pause()
    stdout.write('\u001b[?25h\u001b[?1049l')
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const { json: _json, ...SHOWN } = ONE

export const TOP: Command = {
  name: 'top',
  summary: 'watch jobs in the terminal, sorted by what happens to them next',
  more: [
    'Keys: up and down select a job, enter explains it, p pauses its queue, / filters by',
    'id, type or queue, q quits.',
  ],
  options: { once: { help: 'print it once and end; needs no terminal' }, ...SHOWN },
  exits: [130],
  run: runTop,
}
