/**
 * Looks at everything after every turn of the world: what was committed, what was asked and answered. Tells the model,
 * and holds what was stored and shown against it.
 *
 * A call that was answered must have had the effect the model says. A call over which the server died had its whole
 * effect or none: whether its group was committed, the disk knows. A call that was refused had none.
 */
import { isTerminal, type Job, type JobState, type Outage, type Worker } from '@curfew/core'
import type { Change } from '../../packages/server/src/store/store.ts'
import { isLook, type Call, type Fields } from './calls.ts'
import type { Commit, Disk } from './disk.ts'
import { checkChange, checkRow, checkShown } from './invariants.ts'
import type { Expected, Model } from './model/model.ts'
import { Sight } from './model/sight.ts'
import type { Answer, Exchange, Server } from './server.ts'
import type { Tell } from './stage.ts'
import { insist, type Invariant } from './violation.ts'
import type { World } from './world.ts'

/** After a refusal of the disk the server tries again within this time. */
const TROUBLE_MS = 1_000
const OLDEST_STAMP_MS = 5_000

export interface CheckerParts {
  readonly world: World
  readonly model: Model
  readonly disk: Disk
  readonly server: Server
  /** When the disk last refused, on the world's clock. */
  readonly refusedAt: () => number
  readonly tell: Tell
}

const STATE_AFTER: Readonly<Record<string, JobState>> = {
  'job.enqueued': 'available',
  'job.scheduled': 'scheduled',
  'job.started': 'active',
  'job.completed': 'completed',
  'job.retrying': 'retryable',
  'job.discarded': 'discarded',
  'job.cancelled': 'cancelled',
}

export class Checker {
  readonly #parts: CheckerParts
  /** Every row as it was last committed. */
  readonly rows = new Map<string, Job>()
  readonly workerRows = new Map<string, Worker>()
  readonly #told = new Map<string, JobState>()
  readonly #polls = new Set<Exchange>()
  /** The server's clock, ahead of the world's by so much. */
  #aheadMs = 0
  #stampAt: number | null = null
  #outages: readonly Outage[] = []
  #life = 0
  #lastEvent = 0
  #lastEventAt = 0
  /** What a run has tried: calls by how they were answered, endings by their reason. */
  readonly tried = new Map<string, number>()

  constructor(parts: CheckerParts) {
    this.#parts = parts
  }

  /** The server's time. */
  get now(): number {
    return this.#parts.world.now + this.#aheadMs
  }

  look(): void {
    const { model, disk, server } = this.#parts
    const commits = disk.takeCommits()
    const met = server.takeMet()
    const sight = new Sight(commits)
    const outages = commits.filter(({ outages }) => outages !== null)
    // The first thing a server writes in its life is that it is alive.
    const boot = this.#life === server.life ? undefined : commits.findLast(({ isFirst }) => isFirst)
    if (boot?.aliveAt != null) this.#setClock(boot.aliveAt)
    this.#noteOutages(server.engine?.outages ?? outages.at(-1)?.outages ?? this.#outages)
    const polling = new Set<string>()
    for (const { call } of [...this.#polls, ...met]) {
      if (call.verb === 'fetch' && (call.body.wait_ms ?? 0) > 0) polling.add(call.body.worker_id ?? '')
    }
    const tardy = this.#parts.world.now - this.#parts.refusedAt() <= TROUBLE_MS
    model.begin({ now: this.now, sight, tardy, polling, silences: this.#outages })
    if (boot !== undefined) model.boot()
    for (const commit of commits) this.#note(commit)
    const committed = commits.length > 0
    if (committed) model.settle()
    for (const exchange of this.#inOrder(met, sight)) this.#judge(exchange, committed)
    insist('cause', sight.leftOver.length === 0, () => {
      return `no request asked for ${sight.leftOver.map(({ id, state }) => `${id} (${state})`).join()}`
    })
    for (const id of new Set([...sight.changedIds, ...model.rules.keys()])) {
      checkRow(model, id, this.rows.get(id))
      const told = this.#told.get(id) ?? 'pending'
      const row = this.rows.get(id)
      insist('replay', row === undefined || row.state === told, () => {
        return `${id} is ${String(row?.state)}; by its events it is ${told}`
      })
    }
    if (server.phase === 'up' && !tardy) this.#checkRest()
  }

  /** Nothing is due any more, and the server's stamp of life is fresh. */
  #checkRest(): void {
    const { model } = this.#parts
    const due = model.nextDue()
    insist('wake', due === null || due.at > this.now, () => {
      return `${String(due?.kind)} of ${String(due?.job.id)} was due at ${String(due?.at)}; it is ${String(this.now)}`
    })
    const isBusy = [...model.jobs.values()].some(
      ({ hold }) => hold !== null && this.now - hold.startedAt > OLDEST_STAMP_MS,
    )
    insist('stamp', !isBusy || this.now - (this.#stampAt ?? 0) <= OLDEST_STAMP_MS, () => {
      return `the last stamp of life is ${String(this.now - (this.#stampAt ?? 0))} ms old`
    })
  }

  #setClock(bootAt: number): void {
    const { world } = this.#parts
    const expected = Math.max(world.clock.wallMs(), this.#stampAt ?? 0)
    insist('clock', bootAt >= expected && bootAt >= this.#lastEventAt, () => {
      return `the server came up at ${String(bootAt)}; the wall says ${String(world.clock.wallMs())}, the last event was at ${String(this.#lastEventAt)}`
    })
    this.#aheadMs = bootAt - world.now
    this.#life = this.#parts.server.life
  }

  /** No worker is credited with a time in which a server was listening. */
  #noteOutages(outages: readonly Outage[]): void {
    const last = outages.at(-1)
    const isNew =
      last !== undefined && last.to === this.now && JSON.stringify(last) !== JSON.stringify(this.#outages.at(-1))
    if (isNew) {
      insist('stamp', last.from >= (this.#stampAt ?? 0), () => {
        return `an outage from ${String(last.from)} to ${String(last.to)} is credited; the last stamp is of ${String(this.#stampAt)}`
      })
    }
    this.#outages = outages
  }

  #note({ jobs, workers, events, aliveAt }: Commit): void {
    for (const change of jobs) {
      checkChange(change, this.now)
      this.#countEnding(change)
      const id = (change.after ?? change.before)?.id ?? ''
      if (change.after === null) {
        this.rows.delete(id)
        this.#told.delete(id)
      } else this.rows.set(id, change.after)
    }
    for (const { before, after } of workers) {
      if (after !== null) this.workerRows.set(after.id, after)
      else if (before !== null) this.workerRows.delete(before.id)
    }
    const written = new Set(jobs.map(({ before, after }) => (after ?? before)?.id))
    for (const { sequence, type, at, subject, jobType } of events) {
      insist('replay', jobType === null || written.has(subject), () => {
        return `event ${String(sequence)} tells of ${type} of ${subject}, which was not written`
      })
      insist('replay', sequence === this.#lastEvent + 1 && at === this.now, () => {
        return `event ${String(sequence)} (${type}) follows ${String(this.#lastEvent)} and is of ${String(at)}, not ${String(this.now)}`
      })
      this.#lastEvent = sequence
      this.#lastEventAt = at
      const state = STATE_AFTER[type]
      if (state !== undefined) this.#told.set(subject, state)
    }
    this.#stampAt = aliveAt ?? this.#stampAt
  }

  // ---- Exchanges ----

  /** Calls are decided in the order they came; a poll that was woken by one of them comes after all of them. */
  #inOrder(met: readonly Exchange[], sight: Sight): Exchange[] {
    const place = (exchange: Exchange): number => {
      const { call, answer, order } = exchange
      if (call.verb !== 'fetch' || (call.body.wait_ms ?? 0) === 0) return order
      const jobs = (answer?.body as { jobs?: { id: string }[] } | undefined)?.jobs ?? []
      const claimed = sight.placeOfClaim(jobs.map(({ id }) => id))
      const isWoken = this.#polls.has(exchange) || (claimed !== null && claimed.commit > 0)
      return isWoken ? 1e9 + (claimed?.claim ?? 1e6) : order
    }
    return [...met].sort((a, b) => place(a) - place(b))
  }

  #judge(exchange: Exchange, committed: boolean): void {
    const { call, answer, died } = exchange
    const wasWaiting = this.#polls.delete(exchange)
    const isWaiting = answer === null && !died
    this.#count(`${call.verb} ${died ? 'died' : String(answer?.status ?? 'waits')}`)
    this.#parts.tell(() => {
      const how = died
        ? committed
          ? 'died, committed'
          : 'died, rolled back'
        : isWaiting
          ? 'waits'
          : String(answer?.status)
      return `door: ${how} ← ${JSON.stringify(call)} ${answer === null ? '' : brief(answer)}`
    })
    if (died && !committed) return
    if (died) {
      // A poll that had been waiting has done something only if it claimed something.
      const claimed = call.verb === 'fetch' && wasWaiting ? this.#hasClaims(call) : true
      if (claimed && !isLook(call)) this.#parts.model.apply(call, null)
      return
    }
    if (isWaiting) {
      this.#polls.add(exchange)
      if (!wasWaiting) this.#parts.model.apply(call, { status: 200, body: { jobs: [] } })
      return
    }
    if (answer === null) return
    if (answer.status === 503) {
      insist('refusal', isLook(call) || wasWaiting || !committed, () => {
        return `${call.verb} was answered 503 and carried out: ${JSON.stringify(call)}`
      })
      return
    }
    insist('broken', answer.status !== 500, () => `${call.verb} was answered 500: ${JSON.stringify(call)}`)
    if (wasWaiting && call.verb === 'fetch' && (answer.body as { jobs: unknown[] }).jobs.length === 0) {
      // It was dismissed (nothing was written) or has looked once more (the worker was seen).
      const { sight } = this.#parts.model.turn
      if (call.body.worker_id === undefined || sight.lastSeen(call.body.worker_id) !== this.now) return
    }
    const expected = this.#parts.model.apply(call, answer)
    insist('durable', isLook(call) || committed || answer.status >= 300, () => {
      return `${call.verb} was answered ${String(answer.status)} and nothing was committed`
    })
    this.#checkAnswer(call, answer.status, answer.body as Fields, expected)
  }

  #hasClaims(call: Extract<Call, { verb: 'fetch' }>): boolean {
    const { sight } = this.#parts.model.turn
    return [...sight.changedIds].some((id) => {
      const row = sight.saved(id)
      return row?.hold != null && row.hold.workerId === (call.body.worker_id ?? null) && row.startedAt === this.now
    })
  }

  #checkAnswer(call: Call, status: number, body: Fields, expected: Expected): void {
    insist(promiseOf(call, expected), status === expected.status, () => {
      return `${call.verb} was answered ${String(status)} (${JSON.stringify(body['error'])}) instead of ${String(expected.status)} ${expected.reason ?? ''}: ${JSON.stringify(call)}`
    })
    const error = body['error'] as { code: string; details: Fields } | undefined
    if (expected.reason !== undefined && error !== undefined) {
      const reason = error.details['reason'] ?? error.code
      insist('stale', reason === expected.reason, () => {
        return `${call.verb} was refused with ${JSON.stringify(reason)} instead of ${String(expected.reason)}: ${JSON.stringify(call)}`
      })
    }
    if (call.verb === 'queues') this.#checkCounts(body)
    if (expected.shows === undefined || status >= 300) return
    const shown = (body['jobs'] ?? [body['job']]) as Fields[]
    const views = new Map(shown.map((view) => [view['id'], view]))
    insist('answers', views.size === expected.shows.length, () => {
      return `${call.verb} shows ${String(views.size)} jobs instead of ${String(expected.shows?.length)}`
    })
    for (const job of expected.shows) {
      const view = views.get(job.id)
      insist('answers', view !== undefined, () => `${call.verb} does not show ${job.id}`)
      checkShown(this.#parts.model, job, view, {
        handedOut: call.verb === 'fetch',
        lively: ['look', 'list'].includes(call.verb) && !this.#parts.model.turn.tardy,
      })
    }
  }

  #checkCounts(body: Fields): void {
    const { model } = this.#parts
    const queues = body['queues'] as { name: string; counts: Record<string, number> }[]
    for (const { name, counts } of queues) {
      for (const [state, count] of Object.entries(counts)) {
        const recount = [...model.jobs.values()].filter((job) => job.queue === name && job.state === state).length
        insist(
          'counts',
          count === recount,
          () => `${name} is said to have ${String(count)} ${state} jobs; there are ${String(recount)}`,
        )
      }
    }
  }

  #count(what: string): void {
    this.tried.set(what, (this.tried.get(what) ?? 0) + 1)
  }

  #countEnding({ before, after }: Change<Job>): void {
    if (after?.error == null || after.errorCount <= (before?.errorCount ?? 0)) return
    const { type, details } = JSON.parse(after.error) as { type: string; details?: { predicted?: boolean } }
    this.#count(`ended by ${type}${details?.predicted === true ? ', foreseen' : ''}`)
  }

  /** Jobs that are stored and not over. */
  get openJobs(): Job[] {
    return [...this.rows.values()].filter(({ state }) => !isTerminal(state))
  }
}

function brief({ body }: Answer): string {
  const { jobs, job, error } = body as { jobs?: Fields[]; job?: Fields; error?: Fields }
  const shown = jobs ?? (job === undefined ? [] : [job])
  return JSON.stringify(
    error?.['details'] ?? shown.map(({ id, state, attempt, x_lease }) => ({ id, state, attempt, x_lease })),
  )
}

/** Which promise a wrong status breaks. */
function promiseOf(call: Call, expected: Expected): Invariant {
  if (['ack', 'nack', 'progress', 'checkpoint'].includes(call.verb)) return 'stale'
  if ((call.verb === 'enqueue' || call.verb === 'batch') && expected.status === 422) return 'child'
  return 'answers'
}
