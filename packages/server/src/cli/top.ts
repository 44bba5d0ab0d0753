/** `curfew top`: asks the server every second, draws four times a second, listens to keys. */
import { emitKeypressEvents } from 'node:readline'
import { explain, instant, readBoardJob, timeline, type BoardJob, type Instant } from '@curfew/core'
import { SettingsError } from '../settings.ts'
import { explainText } from './explain-text.ts'
import type { Call, Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { SERVER_OPTIONS, type Terminal } from './frame/flags.ts'
import { Remote } from './frame/remote.ts'
import { earliestOf, topLines, topRows, type TopModel } from './top-view.ts'

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

/** Active jobs, and those whose deadlines lie nearest. */
export async function loadTop(server: Remote): Promise<TopModel> {
  const [health, stats, risks, active, forecast] = await Promise.all([
    server.call('GET', '/ojs/v1/health') as Promise<Health>,
    server.call('GET', '/ojs/v1/admin/stats') as Promise<{ jobs: Readonly<Record<string, number>> }>,
    server.call('GET', '/ojs/v1/admin/at-risk?limit=50') as Promise<{ items: readonly { latest_start: string }[] }>,
    server.call('GET', `/api/v1/board/jobs?state=active,retryable&limit=${String(MAX_JOBS)}`) as Promise<{
      items: readonly { id: string }[]
    }>,
    server.call('GET', '/api/v1/board/forecast?minutes=60') as Promise<{ next: readonly { job_id: string }[] }>,
  ])
  const ids = [...new Set([...forecast.next.map(({ job_id: id }) => id), ...active.items.map(({ id }) => id)])]
  const answers = await Promise.all(
    ids.slice(0, MAX_JOBS).map((id) => server.ask('GET', `/api/v1/board/jobs/${encodeURIComponent(id)}`)),
  )
  return {
    version: health.server_version,
    store: health.backend.type ?? '',
    upSeconds: Math.round(health.uptime_seconds ?? 0),
    counts: stats.jobs,
    late: risks.items.length,
    lateAt: earliestOf(risks.items.map(({ latest_start: time }) => time)),
    // A job may be gone since it was listed.
    jobs: answers.filter(({ status }) => status === 200).map(({ body }) => readBoardJob(body)),
  }
}

interface Key {
  readonly name?: string
  readonly sequence?: string
  readonly ctrl?: boolean
}

class Top {
  readonly #server: Remote
  readonly #terminal: Terminal
  #model: TopModel
  /** How far the clock of the server is ahead of ours. */
  #aheadMs = 0
  #selected = 0
  #filter = ''
  #typing: string | null = null
  #asking: string | null = null
  #said: string | null = null
  #explained: BoardJob | null = null

  constructor(server: Remote, terminal: Terminal, model: TopModel) {
    this.#server = server
    this.#terminal = terminal
    this.#model = model
    this.take(model)
  }

  take(model: TopModel): void {
    this.#model = model
    const [first] = model.jobs
    if (first !== undefined) this.#aheadMs = first.now - Date.now()
  }

  say(text: string | null): void {
    this.#said = text
  }

  now(): Instant {
    return instant(Date.now() + this.#aheadMs)
  }

  draw(columns: number, rows: number): string {
    const paper = { width: columns, colour: this.#terminal.colour }
    const lines = this.#explained === null ? this.#table(paper, rows) : this.#explanation(this.#explained, paper, rows)
    return `\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\n')}\u001b[J`
  }

  #table(paper: { width: number; colour: boolean }, rows: number): string[] {
    const prompt =
      this.#typing !== null
        ? `filter: ${this.#typing}_`
        : this.#asking !== null
          ? `Pause queue ${this.#asking}? y/n`
          : this.#said
    const state = { now: this.now(), selected: this.#selected, filter: this.#filter, prompt, rows }
    return topLines(this.#model, state, paper)
  }

  #explanation(document: BoardJob, paper: { width: number; colour: boolean }, rows: number): string[] {
    const now = this.now()
    const { job, life, heldBy } = document
    const { text } = explain(job, life, now, heldBy)
    const lines = explainText({ document, drawn: timeline(document, now), text }, paper).split('\n')
    return [...lines.slice(0, rows - 2), '', 'any key goes back']
  }

  /** Null: goes on. */
  async press(key: Key): Promise<number | null> {
    if (key.ctrl === true && key.name === 'c') return EXIT.interrupted
    this.#said = null
    if (this.#typing !== null) return this.#type(this.#typing, key)
    if (this.#asking !== null) return this.#answer(this.#asking, key)
    if (this.#explained !== null) {
      this.#explained = null
      return null
    }
    const rows = topRows(this.#model, this.now(), this.#filter)
    const chosen = rows[this.#selected]?.job
    if (key.name === 'q') return EXIT.fine
    if (key.name === 'down' || key.name === 'j') this.#selected = Math.min(rows.length - 1, this.#selected + 1)
    if (key.name === 'up' || key.name === 'k') this.#selected = Math.max(0, this.#selected - 1)
    if (key.sequence === '/') this.#typing = this.#filter
    if (key.name === 'return' && chosen !== undefined) this.#explained = chosen
    if (key.name === 'p' && chosen !== undefined) this.#asking = chosen.job.queue
    return null
  }

  #type(text: string, { name, sequence = '' }: Key): null {
    if (name === 'return' || name === 'escape') {
      this.#filter = name === 'escape' ? '' : text
      this.#typing = null
      this.#selected = 0
    } else if (name === 'backspace') this.#typing = text.slice(0, -1)
    else if (/^[\x21-\x7e]$/.test(sequence)) this.#typing = text + sequence
    return null
  }

  async #answer(queue: string, { name }: Key): Promise<null> {
    this.#asking = null
    if (name !== 'y') return null
    const { status } = await this.#server.ask('POST', `/ojs/v1/queues/${encodeURIComponent(queue)}/pause`)
    this.#said =
      status === 200 ? `${queue} is paused; curfew queues resume ${queue} ends that` : `refused (${String(status)})`
    return null
  }
}

async function runTop({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const { stdin, stdout } = process
  if (flags.has('once')) {
    const model = await loadTop(server)
    const now = model.jobs[0]?.now ?? instant(Date.now())
    const state = { now, selected: -1, filter: '', prompt: '', rows: model.jobs.length + 6 }
    terminal.write(topLines(model, state, terminal).join('\n').trimEnd())
    return EXIT.fine
  }
  if (!stdin.isTTY || !stdout.isTTY) throw new SettingsError('curfew top needs a terminal. Print it once with --once.')
  const top = new Top(server, terminal, await loadTop(server))
  const draw = (): void => void stdout.write(top.draw(stdout.columns, stdout.rows))
  let isAsking = false
  const ask = setInterval(() => {
    if (isAsking) return
    isAsking = true
    loadTop(server)
      .then(
        (model) => {
          top.take(model)
        },
        (error: unknown) => {
          top.say(error instanceof Error ? error.message : String(error))
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
    return await new Promise<number>((resolve, reject) => {
      stdin.on('keypress', (_: unknown, key: Key) => {
        top.press(key).then((code) => {
          if (code === null) draw()
          else resolve(code)
        }, reject)
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

const { url, token } = SERVER_OPTIONS

export const TOP: Command = {
  name: 'top',
  summary: 'watch jobs in the terminal, sorted by what happens to them next',
  more: [
    'Keys: up and down select a job, enter explains it, p pauses its queue, / filters by',
    'id, type or queue, q quits.',
  ],
  options: {
    once: { help: 'print it once and end; needs no terminal' },
    ...(url === undefined || token === undefined ? {} : { url, token }),
  },
  exits: [130],
  run: runTop,
}
