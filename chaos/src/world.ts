/** Servers, workers and the store they run on, and the faults that happen to them. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cluster } from '../../tests/postgres/cluster.ts'
import { pause } from './child.ts'
import type { Absence, Outage } from './evidence.ts'
import { monotonicMs } from './journal.ts'
import { Link } from './link.ts'
import type { Options } from './options.ts'
import { WORKER_TIMEOUT_MS, type Fault, type FaultKind } from './schedule.ts'
import { Server } from './server.ts'
import { canLiveApart, WorkerProcess, type WorkerPlan } from './workers.ts'

const DISK = '256m'
/** Servers on one database need no agreement of their wall clocks. */
const SKEWS_MS = [0, 90_000, -90_000]
/** A worker that leaves stands still for no longer than this before its process ends (sdk/src/worker/worker.ts). */
const LAST_WORDS_MS = 4_000
const WORKERS: readonly { readonly kind: 'plain' | 'sdk'; readonly isApart: boolean }[] = [
  { kind: 'plain', isApart: false },
  { kind: 'plain', isApart: false },
  { kind: 'plain', isApart: true },
  { kind: 'sdk', isApart: false },
  { kind: 'sdk', isApart: false },
  { kind: 'sdk', isApart: true },
]

export class World {
  readonly servers: Server[] = []
  readonly outages: Outage[] = []
  readonly absences: Absence[] = []
  /** What was done, line by line, with the wall clock first. */
  readonly told: string[] = []
  readonly counts = new Map<FaultKind, number>()
  readonly skipped = new Set<FaultKind>()
  readonly #options: Options
  readonly #journal: string
  readonly #home = mkdtempSync(join(tmpdir(), 'curfew-chaos-'))
  readonly #host: string
  readonly #canLiveApart: boolean
  readonly #workers: WorkerProcess[] = []
  #database: Cluster | null = null
  #hasDisk = false
  #balancer: Link | null = null
  #turn = 0
  #isDatabaseHurt = false

  private constructor(options: Options, journal: string) {
    this.#options = options
    this.#journal = journal
    this.#canLiveApart = canLiveApart()
    this.#host = this.#canLiveApart ? '0.0.0.0' : '127.0.0.1'
    if (!this.#canLiveApart) this.skipped.add('cut-link')
  }

  static async open(options: Options, root: string, journal: string): Promise<World> {
    const world = new World(options, journal)
    const flags = await world.#store()
    for (let index = 0; index < options.servers; index += 1) {
      const skewMs = options.store === 'sqlite' ? 0 : (SKEWS_MS[index % SKEWS_MS.length] ?? 0)
      const plan = { root, name: `server ${String(index + 1)}`, flags, out: options.out, skewMs }
      world.servers.push(await Server.start(plan, world.#host))
    }
    world.#balancer = await Link.open(world.#host, () => {
      const up = world.servers.filter(({ port }) => port !== null)
      return up[world.#turn++ % up.length]?.port ?? null
    })
    return world
  }

  /** Workers need what the first calls deploy, so they begin later. */
  async startWorkers(): Promise<void> {
    const started = WORKERS.map(({ kind, isApart }) => this.#startWorker(kind, isApart && this.#canLiveApart))
    this.#workers.push(...(await Promise.all(started)))
  }

  get urls(): string[] {
    return this.servers.map(({ link }) => `http://127.0.0.1:${String(link.port)}`)
  }

  #startWorker(kind: WorkerPlan['kind'], isApart: boolean): Promise<WorkerProcess> {
    const ports = this.servers.map(({ link }) => link.port)
    const balancer = this.#balancer?.port ?? 0
    return WorkerProcess.start({ kind, isApart, journal: this.#journal, ports, balancer })
  }

  async #store(): Promise<string[]> {
    const workers = [
      '--workers-heartbeat-timeout',
      `${String(WORKER_TIMEOUT_MS)}ms`,
      '--workers-heartbeat-interval',
      '1s',
    ]
    // Workers in networks of their own call the servers by other addresses.
    const hosts = Array.from({ length: 250 }, (_, net) => `10.77.${String(net)}.1`).join(',')
    const flags = [...workers, '--allowed-hosts', hosts]
    if (this.#options.store === 'postgres') {
      this.#database = await Cluster.start({ fsync: true })
      return ['--database', this.#database.url(), ...flags]
    }
    const disk = join(this.#home, 'disk')
    mkdirSync(disk)
    this.#hasDisk = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK}`, 'tmpfs', disk]).status === 0
    if (!this.#hasDisk) this.skipped.add('fill-disk')
    // An interrupted run leaves by the exit of its process and never closes its world.
    process.once('exit', this.#removeDisk)
    return ['--data', join(disk, 'data'), ...flags]
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop()))
    this.#balancer?.close()
    await Promise.all(this.servers.map((server) => server.stop()))
    await this.#database?.remove()
    process.off('exit', this.#removeDisk)
    this.#removeDisk()
  }

  readonly #removeDisk = (): void => {
    if (this.#hasDisk) spawnSync('umount', ['-l', join(this.#home, 'disk')])
    rmSync(this.#home, { recursive: true, force: true })
  }

  /** Lines of the servers' logs that speak of an error of their own. */
  get complaints(): string[] {
    const lines = this.servers.flatMap(({ logs }) => logs.flatMap((log) => log.split('\n')))
    return lines.filter((line) => /"level":50/.test(line) && !line.includes('cannot serve'))
  }

  // ---- Faults ----

  async happen(fault: Fault): Promise<void> {
    if (this.skipped.has(fault.kind)) return
    if (fault.kind.endsWith('-database')) await this.#hurtDatabase(fault)
    else if (fault.kind.endsWith('-worker') || fault.kind === 'cut-link') await this.#hurtWorker(fault)
    else await this.#hurtServer(fault)
  }

  #tell(kind: FaultKind, what: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
    this.told.push(`${new Date().toISOString()}  ${what}`)
  }

  #note(what: string): void {
    this.told.push(`${new Date().toISOString()}  ${what}`)
  }

  async #hurtServer(fault: Fault): Promise<void> {
    const whole = this.servers.filter(({ isHurt }) => !isHurt)
    // With several servers, one is always left to answer.
    if (whole.length === 0 || (this.servers.length > 1 && whole.length === 1)) return
    const server = whole[fault.victim % whole.length]
    if (server === undefined) return
    server.isHurt = true
    this.#tell(fault.kind, `${fault.kind} ${server.name} for ${String(Math.round(fault.forMs))} ms`)
    try {
      await this.#outage(() => this.#applyToServer(fault, server))
    } finally {
      server.isHurt = false
    }
    this.#note(`${server.name} is well again`)
  }

  async #applyToServer({ kind, forMs, draw }: Fault, server: Server): Promise<void> {
    if (kind === 'kill-server') {
      await server.kill()
      await pause(forMs)
      await server.start()
    } else if (kind === 'pause-server' || kind === 'freeze-server') {
      server.freeze()
      await pause(forMs)
      server.thaw()
    } else if (kind === 'reset-connections') server.link.reset()
    else if (kind === 'half-open') {
      server.link.swallow()
      await pause(forMs)
      server.link.heal()
    } else if (kind === 'slow-link') {
      server.link.delay(50 + 250 * draw)
      await pause(forMs)
      server.link.heal()
    } else if (kind === 'step-clock') server.stepClock((draw - 0.5) * 7_200_000)
    else if (kind === 'fill-disk') {
      const ballast = this.#fillDisk()
      await pause(forMs)
      rmSync(ballast, { force: true })
    }
  }

  #fillDisk(): string {
    const disk = join(this.#home, 'disk')
    const { bavail, bsize } = statfsSync(disk)
    const file = join(disk, 'ballast')
    try {
      execFileSync(
        'dd',
        ['if=/dev/zero', `of=${file}`, 'bs=64k', `count=${String(Math.ceil((bavail * bsize) / 65_536) + 1)}`],
        {
          stdio: 'ignore',
        },
      )
    } catch {
      // That is how it says that the disk is full.
    }
    return file
  }

  /** With one server, the time in which it cannot decide is an outage; with several, only what happens to the database. */
  async #outage(hurt: () => Promise<void>): Promise<void> {
    const from = Date.now()
    await hurt()
    if (this.servers.length === 1) this.outages.push({ from, to: Date.now() })
  }

  async #hurtWorker(fault: Fault): Promise<void> {
    const whole = this.#workers.filter(({ isHurt, isApart }) => !isHurt && (fault.kind !== 'cut-link' || isApart))
    const worker = whole[fault.victim % Math.max(1, whole.length)]
    if (worker === undefined) return
    worker.isHurt = true
    this.#tell(fault.kind, `${fault.kind} ${worker.who} for ${String(Math.round(fault.forMs))} ms`)
    const { kind, forMs } = fault
    if (kind === 'pause-worker' || kind === 'freeze-worker') {
      const standstill = worker.freeze()
      await pause(forMs)
      worker.thaw(standstill)
      this.absences.push(standstill)
    } else if (kind === 'cut-link') {
      worker.cut(true)
      await pause(forMs)
      worker.cut(false)
    } else {
      const from = monotonicMs()
      if (kind === 'kill-worker') await worker.kill()
      else await worker.stop()
      if (kind === 'kill-worker') this.absences.push({ who: worker.who, from, to: Infinity })
      // A worker that leaves stands still before it hands back what does not stop, and then ends.
      else this.absences.push({ who: worker.who, from: monotonicMs() - LAST_WORDS_MS, to: Infinity, onlyUnended: true })
      await pause(forMs)
      this.#workers.splice(this.#workers.indexOf(worker), 1)
      this.#workers.push(await this.#startWorker(worker.plan.kind, worker.plan.isApart))
    }
    worker.isHurt = false
  }

  async #hurtDatabase({ kind, forMs }: Fault): Promise<void> {
    const database = this.#database
    if (database === null || this.#isDatabaseHurt) return
    this.#isDatabaseHurt = true
    this.#tell(kind, `${kind} for ${String(Math.round(forMs))} ms`)
    const from = Date.now()
    if (kind === 'pause-database') {
      database.freeze()
      await pause(forMs)
      database.thaw()
    } else {
      await database.stop(kind === 'crash-database' ? 'immediate' : 'fast')
      await pause(forMs)
      await database.start()
    }
    this.outages.push({ from, to: Date.now() })
    this.#note('the database is back')
    this.#isDatabaseHurt = false
  }
}
