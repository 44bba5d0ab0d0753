/** What was committed in one turn of the world, as the model looks things up in it. */
import type { Job } from '@curfew/core'
import type { Commit } from '../disk.ts'

export class Sight {
  readonly #last = new Map<string, Job | null>()
  readonly #fresh: Job[] = []
  readonly #claims: Job[] = []
  readonly #claimed: { readonly id: string; readonly commit: number }[] = []
  readonly #seen = new Map<string, number>()

  constructor(commits: readonly Commit[]) {
    for (const [commit, { jobs, workers }] of commits.entries()) {
      for (const { before, after } of jobs) {
        const id = (after ?? before)?.id
        if (id !== undefined) this.#last.set(id, after)
        if (before === null && after !== null) this.#fresh.push(after)
        if (before === null || after === null || before.lease === after.lease) continue
        this.#claims.push(after)
        this.#claimed.push({ id: after.id, commit })
      }
      for (const { after } of workers) if (after !== null) this.#seen.set(after.id, after.lastSeenAt)
    }
  }

  get changedIds(): Iterable<string> {
    return this.#last.keys()
  }

  /** The job as it was last saved; null: removed; undefined: not touched. */
  saved(id: string): Job | null | undefined {
    return this.#last.get(id)
  }

  /** When the worker was last seen, if its row was written. */
  lastSeen(workerId: string): number | undefined {
    return this.#seen.get(workerId)
  }

  /** The new row a request made, each to be taken once. */
  takeFresh(token: string): Job | null {
    const mark = `"args":["${token}"]`
    const index = this.#fresh.findIndex(({ body }) => body.includes(mark))
    return index < 0 ? null : (this.#fresh.splice(index, 1)[0] ?? null)
  }

  /** Claims in a worker's name: those of these jobs, or (the answer never came) all that are left. */
  takeClaims(workerId: string | null, ids: readonly string[] | null): Job[] {
    const taken: Job[] = []
    for (let index = 0; index < this.#claims.length;) {
      const claim = this.#claims[index]
      // One that was cancelled in the same turn no longer tells whose it was.
      const mine = claim?.hold == null || claim.hold.workerId === workerId
      if (claim !== undefined && mine && (ids === null || ids.includes(claim.id))) {
        taken.push(claim)
        this.#claims.splice(index, 1)
      } else index += 1
    }
    return ids === null ? taken : taken.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id))
  }

  /** Where in the turn these jobs were claimed: in which commit, and as which of all claims. */
  placeOfClaim(ids: readonly string[]): { readonly commit: number; readonly claim: number } | null {
    const claim = this.#claimed.findIndex(({ id }) => ids.includes(id))
    return claim < 0 ? null : { commit: this.#claimed[claim]?.commit ?? 0, claim }
  }

  /** What could not be explained. */
  get leftOver(): readonly Job[] {
    return [...this.#fresh, ...this.#claims]
  }
}
