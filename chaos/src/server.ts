/** One server: a real process that is killed, stopped and started again behind an address that stays. */
import { join } from 'node:path'
import { Child, pause, until } from './child.ts'
import { Link } from './link.ts'

const START_MS = 60_000
/** How long Node may take to write its report. */
const REPORT_MS = 2_000
const LISTENING = /^listening on \S+:(\d+)\n/

export interface ServerPlan {
  /** The root of the project, built. */
  readonly root: string
  readonly name: string
  readonly flags: readonly string[]
  /** Where a server that hangs writes what it is doing. */
  readonly out: string
  /** By how much its wall clock is wrong from the start. */
  readonly skewMs: number
}

export class Server {
  readonly name: string
  readonly link: Link
  readonly logs: string[] = []
  readonly #plan: ServerPlan
  readonly #address: { port: number | null }
  #child: Child | null = null
  /** Between a kill and the next start, or stopped: not a victim for another fault. */
  isHurt = false

  private constructor(plan: ServerPlan, link: Link, address: { port: number | null }) {
    this.#plan = plan
    this.name = plan.name
    this.link = link
    this.#address = address
  }

  static async start(plan: ServerPlan, host: string): Promise<Server> {
    const address: { port: number | null } = { port: null }
    const server = new Server(plan, await Link.open(host, () => address.port), address)
    await server.start()
    return server
  }

  get port(): number | null {
    return this.#address.port
  }

  /** A server whose database is away ends, and is started again. */
  async start(): Promise<void> {
    const giveUpAt = performance.now() + START_MS
    while (!(await this.#launch())) {
      if (performance.now() > giveUpAt) throw new Error(`${this.name} did not start:\n${this.logs.at(-1) ?? ''}`)
      await pause(100)
    }
  }

  async #launch(): Promise<boolean> {
    const { root, flags, skewMs, out } = this.#plan
    const preloads = [join('cluster', 'skewed-clock.mjs'), join('process', 'shifted-clock.mjs')]
    const imports = preloads.flatMap((file) => ['--import', join(root, 'tests', file)])
    const main = join(root, 'packages', 'server', 'dist', 'cli', 'main.js')
    const report = ['--report-on-signal', `--report-directory=${out}`]
    const command = [process.execPath, ...report, ...imports, main, 'serve', '--port', '0', ...flags]
    const child = new Child(command, { SKEW_MS: String(skewMs) }, true)
    try {
      await until(`${this.name} listens`, () => child.isGone || LISTENING.test(child.stdout), START_MS)
    } catch (error) {
      child.signal('SIGUSR2')
      await pause(REPORT_MS)
      throw new Error(
        `${this.name} neither listened nor ended. What it was doing is in ${out}/report.*.json. It said:\n${child.stderr}`,
        { cause: error },
      )
    }
    const port = LISTENING.exec(child.stdout)?.[1]
    if (port === undefined) {
      this.logs.push(child.stderr)
      return false
    }
    this.#child = child
    this.#address.port = Number(port)
    return true
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#address.port = null
    this.#child = null
    await child?.kill()
    this.logs.push(child?.stderr ?? '')
  }

  freeze(): void {
    this.#child?.signal('SIGSTOP')
  }

  thaw(): void {
    this.#child?.signal('SIGCONT')
  }

  stepClock(shiftMs: number): void {
    this.#child?.send({ shiftMs })
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#address.port = null
    await child?.stop()
    this.logs.push(child?.stderr ?? '')
    this.link.close()
  }
}
