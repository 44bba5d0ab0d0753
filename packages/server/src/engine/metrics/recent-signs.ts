/**
 * What this server has lately heard of jobs and does not store: their beats, and reports that came too late. It is for
 * pictures only, decides nothing, and is forgotten when the server stops.
 *
 * A beat is kept as it came, with the set of jobs it lists, so that its cost does not grow with their number. The oldest
 * are dropped when too many beats, or too many listed jobs, are kept.
 */
import { instant, type Beat, type Instant, type LateResult, type Signs } from '@curfew/core'

const MAX_BEATS = 20_000
const MAX_LISTED = 100_000
const MAX_LATE = 1_000
/** Of one job so many are shown. */
const SHOWN_BEATS = 64

type Heard = Pick<Beat, 'at' | 'jobs' | 'proofs'>

export class RecentSigns {
  /** Oldest first. */
  readonly #beats: Heard[] = []
  readonly #late: (LateResult & { readonly jobId: string })[] = []
  #listed = 0
  /** The last beat that was dropped. */
  #droppedAt: Instant = instant(0)

  beat(heard: Heard): void {
    if (heard.jobs.size === 0 || heard.jobs.size > MAX_LISTED) return
    this.#beats.push(heard)
    this.#listed += heard.jobs.size
    if (this.#beats.length > MAX_BEATS || this.#listed > MAX_LISTED) this.#dropSome()
  }

  late(jobId: string, result: LateResult): void {
    this.#late.push({ jobId, ...result })
    if (this.#late.length > MAX_LATE) this.#late.splice(0, MAX_LATE / 2)
  }

  /** `upAt`: since when this server listens. */
  of(jobId: string, upAt: Instant): Signs {
    const covers = ({ jobs, proofs }: Heard): boolean => jobs.has(jobId) && (proofs === null || proofs.has(jobId))
    return {
      since: this.#droppedAt > upAt ? this.#droppedAt : upAt,
      beats: this.#beats
        .filter(covers)
        .slice(-SHOWN_BEATS)
        .map(({ at }) => at),
      late: this.#late.filter((one) => one.jobId === jobId).map(({ at, verb, workerId }) => ({ at, verb, workerId })),
    }
  }

  /** A tenth at a time: the array is moved seldom. */
  #dropSome(): void {
    const dropped = this.#beats.splice(0, Math.max(1, Math.ceil(this.#beats.length / 10)))
    for (const { jobs } of dropped) this.#listed -= jobs.size
    this.#droppedAt = dropped.at(-1)?.at ?? this.#droppedAt
  }
}
