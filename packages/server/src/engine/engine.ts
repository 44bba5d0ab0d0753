/**
 * The engine: the kernel with all features. Commands do not know it: each depends on `Context`, or on the context of its own
 * feature. To add a feature, add a folder and one entry in `FEATURES`.
 */
import { stopwatchOf, type Clock, type Stopwatch } from '@curfew/core'
import { noApiKeys, type ApiKeys } from './api-keys.ts'
import { cron } from './cron/feature.ts'
import { Definitions } from './definitions/definitions.ts'
import { definitions } from './definitions/feature.ts'
import type { JudgeBeside, ReadBeside } from './definitions/verdict.ts'
import { evaluatesNothing, type Expressions } from './expressions.ts'
import { inbox } from './inbox/feature.ts'
import { jobs } from './jobs/feature.ts'
import { idleMs } from './jobs/idle.ts'
import { Polls } from './jobs/polls.ts'
import { noSecrets, type Secrets } from './journeys/call-auth.ts'
import { journeys } from './journeys/feature.ts'
import { Journeys } from './journeys/journeys.ts'
import type { Trace } from './journeys/report.ts'
import type { Feature } from './kernel/feature.ts'
import { Kernel, startOf, type KernelParts, type Start } from './kernel/kernel.ts'
import { metrics } from './metrics/feature.ts'
import type { Meters } from './metrics/meters.ts'
import { RecentSigns } from './metrics/recent-signs.ts'
import { callsNobody, type Send } from './outgoing.ts'
import { CapacityWaiters } from './queues/capacity-waiters.ts'
import { queues } from './queues/feature.ts'
import { Checkers } from './schemas/schemas.ts'
import { series } from './series/feature.ts'
import { SeriesKeeper } from './series/keeper.ts'
import { Pulse } from './series/pulse.ts'
import { webhooks } from './webhooks/feature.ts'
import { Webhooks } from './webhooks/webhooks.ts'
import { workflows } from './workflows/feature.ts'

/** Hooks are called in this order. */
const FEATURES: readonly ((engine: Engine) => Feature)[] = [
  metrics,
  jobs,
  queues,
  cron,
  journeys,
  webhooks,
  workflows,
  definitions,
  inbox,
  series,
]

export interface EngineParts extends KernelParts {
  readonly meters: Meters
  /** How long work takes; measured by the clock of the host, if it is left out. */
  readonly stopwatch?: Stopwatch
  /** Makes calls to other services; without it none can be made. */
  readonly send?: Send
  /** Secrets for calls of journeys. */
  readonly secrets?: Secrets
  /** Keys by which callers of journeys prove who they are. */
  readonly apiKeys?: ApiKeys
  /** Evaluates expressions; without it none can be evaluated. */
  readonly expressions?: (clock: Clock) => Expressions
  /** Judges and reads long definitions in another thread; without it they block this one. */
  readonly judgeBeside?: JudgeBeside
  readonly readBeside?: ReadBeside
  /** Is given the spans of runs. */
  readonly trace?: Trace
}

export class Engine extends Kernel {
  readonly meters: Meters
  readonly series: SeriesKeeper
  readonly pulse: Pulse
  readonly recentSigns = new RecentSigns()
  readonly polls = new Polls()
  readonly limitedQueues = new Set<string>()
  readonly capacityWaiters = new CapacityWaiters()
  readonly checkers: Checkers
  readonly send: Send
  readonly secrets: Secrets
  readonly apiKeys: ApiKeys
  readonly expressions: Expressions
  readonly judgeBeside: JudgeBeside | null
  readonly readBeside: ReadBeside | null
  readonly trace: Trace
  readonly definitions: Definitions
  readonly webhooks: Webhooks
  readonly journeys: Journeys

  private constructor(parts: EngineParts, start: Start) {
    super(parts, start)
    this.meters = parts.meters
    this.checkers = new Checkers(parts.host, parts.stopwatch ?? stopwatchOf(parts.host))
    this.send = parts.send ?? callsNobody
    this.secrets = parts.secrets ?? noSecrets
    this.apiKeys = parts.apiKeys ?? noApiKeys
    this.expressions = parts.expressions?.(start.clock) ?? evaluatesNothing
    this.judgeBeside = parts.judgeBeside ?? null
    this.readBeside = parts.readBeside ?? null
    this.trace = parts.trace ?? (() => {})
    this.definitions = new Definitions(this)
    this.webhooks = new Webhooks(this)
    this.journeys = new Journeys(this)
    this.series = new SeriesKeeper(this)
    this.pulse = new Pulse(this)
    this.use(FEATURES.map((make) => make(this)))
  }

  /** Opens the engine on its data: credits the outage, settles everything overdue, and starts the loop. */
  static async open(parts: EngineParts): Promise<Engine> {
    const engine = new Engine(parts, await startOf(parts))
    await engine.start()
    return engine
  }

  async idleMs(): Promise<number> {
    return this.isBusy ? 0 : idleMs(this)
  }
}
