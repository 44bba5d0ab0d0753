/** Counts by name. */
export class Tally {
  readonly counts = new Map<string, number>()

  add(name: string, times = 1): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + times)
  }

  addAll(other: Tally): void {
    for (const [name, times] of other.counts) this.add(name, times)
  }

  of(name: string): number {
    return this.counts.get(name) ?? 0
  }

  /** `a 1, b 2` of all names that begin with `prefix`, without it. */
  text(prefix: string): string {
    const found = [...this.counts].filter(([name]) => name.startsWith(prefix))
    found.sort(([a], [b]) => (a < b ? -1 : 1))
    return found.map(([name, times]) => `${name.slice(prefix.length)} ${String(times)}`).join(', ')
  }
}
