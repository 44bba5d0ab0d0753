/**
 * Histograms that are observed with every job, and counters that are increased with every job.
 *
 * prom-client checks and hashes an object of labels for each observation, which costs more than to move a job's row in memory.
 * Jobs of one transaction are mostly of one kind, so a histogram here finds the series of the observation before again by
 * comparing its labels, and a counter is increased once for a run of jobs. What is shown stays as prom-client shows it.
 */
import type { Counter, Histogram, Registry } from 'prom-client'

interface Described<L extends string> {
  readonly name: string
  readonly help: string
  /** Three at most. */
  readonly labelNames: readonly L[]
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[]
}

/** The values of labels, in the order of their names; '' for those that there are not. */
type LabelValues = readonly [string, string, string]

interface Observed {
  readonly labels: LabelValues
  /** By bucket, not cumulative; the last is for everything above the largest bound. */
  readonly counts: number[]
  sum: number
}

export class JobHistogram<L extends string> {
  readonly name: string
  readonly #described: Described<L>
  readonly #series = new Map<string, Observed>()
  #last: Observed | null = null

  constructor(described: Described<L>, registry: Registry) {
    this.name = described.name
    this.#described = described
    // The registry asks its metrics for `name` and `get()` alone.
    registry.registerMetric(this as unknown as Histogram<L>)
  }

  observe(value: number, first = '', second = '', third = ''): void {
    const observed = this.#seriesOf(first, second, third)
    const { buckets } = this.#described
    let bucket = 0
    while (bucket < buckets.length && value > (buckets[bucket] ?? 0)) bucket += 1
    observed.counts[bucket] = (observed.counts[bucket] ?? 0) + 1
    observed.sum += value
  }

  /** As the registry writes it. */
  get(): Promise<unknown> {
    const { name, help, labelNames, buckets } = this.#described
    const values: { metricName: string; labels: Record<string, string | number>; value: number }[] = []
    for (const { labels: given, counts, sum } of this.#series.values()) {
      const labels = Object.fromEntries(labelNames.map((label, index) => [label, given[index] ?? '']))
      let count = 0
      counts.forEach((here, index) => {
        count += here
        values.push({ metricName: `${name}_bucket`, labels: { le: buckets[index] ?? '+Inf', ...labels }, value: count })
      })
      values.push({ metricName: `${name}_sum`, labels, value: sum })
      values.push({ metricName: `${name}_count`, labels, value: count })
    }
    return Promise.resolve({ name, help, type: 'histogram', values, aggregator: 'sum' })
  }

  #seriesOf(first: string, second: string, third: string): Observed {
    const last = this.#last
    if (last?.labels[0] === first && last.labels[1] === second && last.labels[2] === third) return last
    const key = JSON.stringify([first, second, third])
    let found = this.#series.get(key)
    if (found === undefined) {
      const counts = new Array<number>(this.#described.buckets.length + 1).fill(0)
      found = { labels: [first, second, third], counts, sum: 0 }
      this.#series.set(key, found)
    }
    this.#last = found
    return found
  }
}

/** Counts a run of jobs with the same labels (the same object) and passes it on as one increase. */
export class RunCounter<L extends string> {
  readonly #counter: Counter<L>
  #labels: Readonly<Record<L, string>> | null = null
  #count = 0

  constructor(counter: Counter<L>) {
    this.#counter = counter
  }

  inc(labels: Readonly<Record<L, string>>): void {
    if (labels !== this.#labels) {
      this.flush()
      this.#labels = labels
    }
    this.#count += 1
  }

  /** To be called after the last job of a transaction. */
  flush(): void {
    if (this.#labels !== null && this.#count > 0) this.#counter.inc(this.#labels, this.#count)
    this.#count = 0
  }
}
