/**
 * Runs of journeys, counted from the events of what was committed: each tells once that a run started, and once how it
 * ended. Labels are names and versions of definitions; only so many have series of their own (`series.ts`).
 */
import { Counter, Histogram, type Registry } from 'prom-client'
import type { JourneyEnding } from '@curfew/core'
import type { StoredEvent } from '../../store/store.ts'
import { Series } from './series.ts'

/** From a quick answer to a week. */
const DURATIONS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800]

type Told = Pick<StoredEvent, 'type' | 'data'>

export const isAboutRun = ({ type }: Pick<StoredEvent, 'type'>): boolean => type.startsWith('journey.')

const ENDINGS = ['journey.completed', 'journey.failed', 'journey.timeout', 'journey.cancelled']

/** Null for an event that tells of no end. */
export function endingIn({ type, data }: Told): JourneyEnding | null {
  return ENDINGS.includes(type) ? (JSON.parse(data) as JourneyEnding) : null
}

export class JourneyMeters {
  readonly #series = new Series()
  readonly #started: Counter<'journey_name' | 'journey_version' | 'kind'>
  readonly #completed: Counter<'journey_name' | 'journey_version' | 'kind' | 'phase'>
  readonly #timeouts: Counter<'journey_name' | 'kind' | 'limited_by' | 'at_state_type'>
  readonly #duration: Histogram<'journey_name' | 'journey_version' | 'kind' | 'phase'>
  readonly #margin: Histogram<'journey_name' | 'kind'>

  constructor(registry: Registry) {
    const registers = [registry]
    this.#started = new Counter({
      name: 'journey_runs_started_total',
      help: 'Runs of journeys and Apis that started.',
      labelNames: ['journey_name', 'journey_version', 'kind'],
      registers,
    })
    this.#completed = new Counter({
      name: 'journey_runs_completed_total',
      help: 'Runs that ended, by the phase they ended in.',
      labelNames: ['journey_name', 'journey_version', 'kind', 'phase'],
      registers,
    })
    this.#timeouts = new Counter({
      name: 'journey_run_timeouts_total',
      help: 'Runs that were ended by their deadline, by who set it and where they were.',
      labelNames: ['journey_name', 'kind', 'limited_by', 'at_state_type'],
      registers,
    })
    this.#duration = new Histogram({
      name: 'journey_run_duration_seconds',
      help: 'From the start of a run to its end.',
      labelNames: ['journey_name', 'journey_version', 'kind', 'phase'],
      buckets: DURATIONS,
      registers,
    })
    this.#margin = new Histogram({
      name: 'journey_deadline_margin_seconds',
      help: 'What was left of the budget of runs that succeeded.',
      labelNames: ['journey_name', 'kind'],
      buckets: DURATIONS,
      registers,
    })
  }

  #labels(named: Pick<JourneyEnding, 'journey_name' | 'journey_version'>): {
    journey_name: string
    journey_version: string
  } {
    const [name, version] = this.#series.pair(named.journey_name, named.journey_version)
    return { journey_name: name, journey_version: version }
  }

  count(event: Told): void {
    const ending = endingIn(event)
    if (event.type === 'journey.started') {
      const { kind, ...named } = JSON.parse(event.data) as JourneyEnding
      const { journey_name, journey_version } = this.#labels(named)
      this.#started.inc({ journey_name, journey_version, kind })
    }
    if (ending === null) return
    const { kind, phase } = ending
    const { journey_name, journey_version } = this.#labels(ending)
    this.#completed.inc({ journey_name, journey_version, kind, phase })
    this.#duration.observe({ journey_name, journey_version, kind, phase }, ending.duration_ms / 1000)
    if (ending.termination_kind === 'Timeout') {
      const { limited_by, at_state_type } = ending
      this.#timeouts.inc({ journey_name, kind, limited_by, at_state_type })
    }
    if (phase === 'SUCCEEDED') this.#margin.observe({ journey_name, kind }, ending.margin_ms / 1000)
  }
}
