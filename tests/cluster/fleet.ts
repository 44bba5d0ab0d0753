/**
 * Several servers on one database, and callers who know nothing of them but their addresses: a call goes to any of them,
 * and to another one if that does not answer.
 */
import { fileURLToPath } from 'node:url'
import { pause, ServerProcess, until, within, type Reply } from '../process/server-process.ts'

/** More than a database takes to start at worst. */
const START_MS = 60_000
const SKEWED = fileURLToPath(new URL('skewed-clock.mjs', import.meta.url))

export interface Member {
  readonly name: string
  readonly skewMs: number
  server: ServerProcess | null
  paused: boolean
}

export interface FleetOptions {
  readonly database: string
  /** By how much the wall clock of each server is wrong. */
  readonly skewsMs: readonly number[]
  readonly flags?: readonly string[]
}

export class Fleet {
  readonly members: readonly Member[]
  readonly #options: FleetOptions
  /** Everything servers that are gone have logged. */
  readonly #logs: string[] = []
  /** Calls go round. A caller that counts its own turns gets another server each time. */
  #next = 0
  /** What was done to which server, to find out why a test failed. */
  readonly story: string[] = []

  private constructor(options: FleetOptions) {
    this.#options = options
    this.members = options.skewsMs.map((skewMs, index) => ({
      name: `server ${String(index + 1)}`,
      skewMs,
      server: null,
      paused: false,
    }))
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options)
    await Promise.all(fleet.members.map((member) => fleet.start(member)))
    return fleet
  }

  /** Notes what is done now. */
  tell(what: string): void {
    this.story.push(`${new Date().toISOString()} ${what}`)
  }

  async start(member: Member): Promise<void> {
    this.tell(`${member.name} starts`)
    // A server that finds no database says so and ends; the fleet starts it again. A database that crashed
    // under load may be long in coming back.
    const launched = (): Promise<ServerProcess | null> =>
      this.#launch(member).catch((error: unknown) => {
        this.tell(`${member.name} did not start: ${String(error)}`)
        return null
      })
    member.server = await until(`${member.name} starts`, launched, START_MS)
    this.tell(`${member.name} listens`)
  }

  #launch({ skewMs }: Member): Promise<ServerProcess> {
    return ServerProcess.start({
      flags: ['--database', this.#options.database, ...(this.#options.flags ?? [])],
      node: ['--import', SKEWED],
      env: { SKEW_MS: String(skewMs) },
    })
  }

  async kill(member: Member): Promise<void> {
    this.tell(`${member.name} is killed`)
    const { server } = member
    member.server = null
    member.paused = false
    await server?.kill()
    this.#logs.push(server?.stderr ?? '')
  }

  pause(member: Member): void {
    this.tell(`${member.name} is stopped`)
    member.paused = true
    member.server?.signal('SIGSTOP')
  }

  resume(member: Member): void {
    this.tell(`${member.name} goes on`)
    member.paused = false
    member.server?.signal('SIGCONT')
  }

  /** What servers complained of so far. */
  get complaints(): string[] {
    const logs = [...this.#logs, ...this.members.map(({ server }) => server?.stderr ?? '')]
    return logs.flatMap((log) => log.split('\n')).filter((line) => /"level":[45]0/.test(line))
  }

  /** Stops in order; the logs of all servers there ever were. */
  async stop(): Promise<string[]> {
    for (const member of this.members) if (member.paused) this.resume(member)
    await Promise.all(this.members.map(async ({ server }) => server?.stop()))
    return [...this.#logs, ...this.members.map(({ server }) => server?.stderr ?? '')]
  }

  /** The answer of whichever server gives one that is not a 503, or null when none did in time. */
  async call(method: string, path: string, body?: unknown, patienceMs = 20_000): Promise<Reply | null> {
    const giveUpAt = performance.now() + patienceMs
    while (performance.now() < giveUpAt) {
      const reply = await this.callOnce(method, path, body)
      if (reply !== null && reply.status !== 503) return reply
      await pause(50)
    }
    return null
  }

  /** One try with one server; null when there is no answer (which says nothing about what happened). */
  async callOnce(
    method: string,
    path: string,
    body?: unknown,
    timeoutMs = 3_000,
    turn = this.#next++,
  ): Promise<Reply | null> {
    const up = this.members.filter(({ server }) => server !== null)
    const member = up[turn % up.length]
    if (member?.server == null) return null
    return within('an answer', member.server.call(method, path, body), timeoutMs).catch(() => null)
  }
}
