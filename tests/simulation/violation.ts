/** A promise that was not kept: which one, and what was seen instead. The run ends with the first. */

export const INVARIANTS = {
  oneLease: '2: at most one attempt of a job holds a valid lease',
  stale: '2: a stale or late report is refused and changes nothing',
  noLateStart: '3: a job never becomes active at or after one of its deadlines',
  total: '4: a total ends the job whatever its state',
  ttl: '4: enqueue_ttl and expires_at end a job that never started',
  attemptDeadline: '4: an attempt ends at its hard deadline, or when its holder falls silent',
  seenLate: '4: no reader is shown a state later than its deadline allows',
  attempts: '5: attempts started <= max_attempts, hand-backs refunded and counted apart',
  durable: '6: every acknowledged enqueue, ACK and checkpoint survives',
  refusal: '6: a request that is refused changes nothing',
  oneEnding: '7: each job reaches one terminal state, which does not change',
  reason: '7: the recorded reason is the earliest limit that passed',
  overshoot: '7: the decision falls into the very millisecond of the deadline',
  limits: '7: limits are resolved as published, by handler, type, queue, default and caps',
  retry: '7: a failed attempt is retried, handed back or given up as its policy says',
  grace: '8: grace never extends a total',
  child: '8: a child never outlives its parent',
  liveness: '9: once faults stop, every job that can run runs or expires',
  handOut: '9: a fetch hands out what there is, in order',
  stamp: '9: the stamp of life is at most 5 s old while attempts are active',
  replay: '10: events replay to the stored state',
  cause: 'every change of a job has a cause: a call or a deadline',
  answers: 'the answer says what the rules say',
  counts: 'counts equal a recount of the rows',
  wake: 'wakeAt is never later than what is due next, and nothing due remains',
  store: 'what is read back is what was saved',
  clock: 'the clock of a server never goes back behind what it has recorded',
  broken: 'nothing breaks inside the server',
} as const

export type Invariant = keyof typeof INVARIANTS

export class Violation extends Error {
  readonly invariant: Invariant

  constructor(invariant: Invariant, detail: string) {
    super(`${INVARIANTS[invariant]}\n  ${detail}`)
    this.name = 'Violation'
    this.invariant = invariant
  }
}

export function insist(invariant: Invariant, holds: boolean, detail: () => string): asserts holds {
  if (!holds) throw new Violation(invariant, detail())
}
