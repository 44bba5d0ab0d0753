/** Real workers of the SDK on a real server, each in a process of its own, and what their handlers wrote down. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { runNode, ServerProcess, temporaryDirectory, until, type NodeProcess } from '../server-process.ts'

export interface Line {
  /** On the machine's monotonic clock. */
  readonly at: number
  readonly jobId: string
  /** Which run of the job it is, from 1, hand-backs included. */
  readonly attempt: number
  readonly what: string
  readonly pid: number
}

export interface WorkerProcess extends NodeProcess {
  readonly id: string
}

export class Stage {
  readonly server: ServerProcess
  readonly file = join(temporaryDirectory(), 'lines')

  private constructor(server: ServerProcess) {
    this.server = server
  }

  /** Workers beat every fifth of a second here and are dead after a second of silence, so that tests need not be long. */
  static async open(flags: readonly string[] = []): Promise<Stage> {
    const quick = ['--workers-heartbeat-interval', '200ms', '--workers-heartbeat-timeout', '1s']
    return new Stage(await ServerProcess.start({ flags: [...quick, ...flags] }))
  }

  async worker(env: Readonly<Record<string, string>> = {}): Promise<WorkerProcess> {
    const script = fileURLToPath(new URL('./worker.mjs', import.meta.url))
    const child = runNode(script, { URL: this.server.url, LINES: this.file, ...env })
    const id = await until('the worker is ready', () => {
      if (child.ended() !== null) throw new Error(`the worker ended at once:\n${child.output.stderr}`)
      return /^ready (\S+)$/m.exec(child.output.stdout)?.[1]
    })
    return Object.assign(child, { id })
  }

  lines(): Line[] {
    if (!existsSync(this.file)) return []
    const runs = new Map<string, string[]>()
    const text = readFileSync(this.file, 'utf8')
    return text
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => {
        const { run, ...rest } = JSON.parse(line) as Omit<Line, 'attempt'> & { run: string }
        const known = runs.get(rest.jobId) ?? []
        if (!known.includes(run)) runs.set(rest.jobId, [...known, run])
        return { ...rest, attempt: (runs.get(rest.jobId) ?? []).indexOf(run) + 1 }
      })
  }

  linesOf(jobId: string): Line[] {
    return this.lines().filter((line) => line.jobId === jobId)
  }

  async sleepers(count: number, ms: number, more: Record<string, unknown> = {}): Promise<string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n += 1)
      ids.push(String((await this.server.enqueue({ type: 'test.sleep', args: [ms], ...more })).id))
    return ids
  }

  async untilRunning(count: number): Promise<void> {
    await until(`${String(count)} jobs run`, () => {
      const open = new Set<string>()
      for (const { jobId, attempt, what } of this.lines()) {
        if (what === 'start') open.add(`${jobId} ${String(attempt)}`)
        if (what === 'end' || what.startsWith('stopped')) open.delete(`${jobId} ${String(attempt)}`)
      }
      return open.size >= count
    })
  }

  async untilOver(ids: readonly string[], boundMs = 30_000): Promise<void> {
    await until(
      'all jobs are over',
      async () => {
        for (const id of ids) {
          const { state } = (await this.server.job(id)) as { state: string }
          if (!['completed', 'discarded', 'cancelled'].includes(state)) return false
        }
        return true
      },
      boundMs,
    )
  }

  /**
   * Once an attempt has begun, nothing of an earlier one of the same job happens any more, but that its handler may hear
   * that it was stopped. A process that was frozen by SIGSTOP first finishes the JavaScript it was frozen in, which no
   * code can prevent: each of its attempts may write one line, and a handler of these tests writes one line a turn.
   */
  expectNoOverlap({ frozen }: { readonly frozen?: WorkerProcess } = {}): void {
    const begun = new Map<string, Line>()
    const finished = new Set<string>()
    const done = this.lines().filter(({ what }) => !what.startsWith('stopped'))
    for (const line of done.sort((a, b) => a.at - b.at)) {
      const latest = begun.get(line.jobId)
      if (latest !== undefined && line.attempt < latest.attempt) {
        const attempt = `${line.jobId} ${String(line.attempt)}`
        if (line.pid === frozen?.pid && !finished.has(attempt)) {
          finished.add(attempt)
          continue
        }
        const late = (line.at - latest.at).toFixed(0)
        expect.fail(
          `attempt ${String(line.attempt)} of ${line.jobId} wrote "${line.what}" ${late} ms after attempt ` +
            `${String(latest.attempt)} had begun`,
        )
      }
      if (latest === undefined || line.attempt > latest.attempt) begun.set(line.jobId, line)
    }
  }
}
