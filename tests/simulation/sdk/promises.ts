/** What a worker promises, and what it means to break a promise. A run ends with the first that is broken. */

export const PROMISES = {
  oneAtATime: '1: no two attempts of a job run at once in one worker',
  stoppedBefore: '1: no attempt begins while an earlier one runs in another worker that was not asked to stop',
  startsOnce: '1: a lease is started at most once',
  onlyRunning: '2: no handler begins while its worker is not running',
  quietTakesNothing: '2: a worker that has been quiet for a beat interval is handed no jobs',
  beginsInTime:
    '2: a job that waited in its worker for longer than a tenth of its shortest clock, or a second, does not begin',
  bufferReturned: '3: a worker that is not running hands back what it has not begun',
  noTryBurnt: '3: a try is used only by a handler that began, or by a limit',
  recovered: '3: a job whose answer was lost is handed back before a limit ends it',
  notBesideAsking: '3: a worker that is not running hands nothing back while it asks for jobs',
  silentAfterLeaving: '4: a worker sends nothing after its deregistration',
  noDeathAfterLeaving: '4: a worker that deregistered is not declared dead, and does not come back',
  everyLeaseReturned: '5: every lease is reported, handed back or known to be lost',
  resultReported: '5: a result is reported, not dropped',
  handedBackAtRest: '5: no lease is handed back while its handler runs',
  ordersByLease: '6: an attempt is stopped only by an order that names its lease',
  cancelledForCause: '6: an attempt is stopped as cancelled only if the server cancelled it',
  cancelTold: '6: a cancelled attempt hears so within a beat interval',
  notAfterCancel: '6: a lease does not begin after its worker has read that it was cancelled or lost',
  listedInBeats: '7: a beat lists every lease that has arrived and begins later',
  beatenFor: '7: an attempt whose worker beats never ends as stalled or by visibility',
  resumed: '8: a quiet worker runs within a beat interval of the resume',
  unaskedState: '8: a worker changes its state only when it is asked to',
  currentResult: '9: the result of a job is that of the lease which was current',
  stepOnce: '11: a step whose result is stored does not run again',
  stepStored: '11: a step gives the result that is stored, and is stored when it gives it',
  stepKept: '11: a step that is stored stays stored',
  stepBudget: '11: no step begins without budget',
  sleepInFull: '12: a sleep does not end before its time',
  sleepWithinTotal: '12: a sleep ends before the total of its job',
  sleepUsesNoTry: '12: a sleep uses no try',
  settles: '10: when faults end, every job ends or waits for a reason',
  restful: '10: a worker does not ask without end',
  healthy: 'nothing breaks inside the server or the worker',
} as const

export type Promised = keyof typeof PROMISES

export class BrokenPromise extends Error {
  readonly promise: Promised

  constructor(promise: Promised, detail: string) {
    super(`${PROMISES[promise]}\n  ${detail}`)
    this.name = 'BrokenPromise'
    this.promise = promise
  }
}

/** Keeps the first broken promise: code under test must not be able to catch it. */
export type Blame = (promise: Promised, detail: string) => void
