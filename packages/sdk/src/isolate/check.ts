/** The question whether handlers of a kind can run, on its way to an answer. */
import type { Host, Timer } from '@curfew/core'
import { timerAt } from '../attempt/timer-at.ts'
import type { Isolate, IsolateKind } from './isolate.ts'
import type { ErrorData } from '../attempt/facts.ts'
import { LOOK_MS } from './run.ts'

/** How long an isolate may take to start and to load its module. */
const START_TIMEOUT_MS = 10_000

export class Check {
  readonly kind: IsolateKind
  readonly #host: Host
  readonly #answer: (error: ErrorData | null) => void
  #timers: Timer[] = []
  #stack: readonly string[] | null = null

  constructor(kind: IsolateKind, host: Host, answer: (error: ErrorData | null) => void) {
    this.kind = kind
    this.#host = host
    this.#answer = answer
  }

  /** It has its isolate, which may take so long. */
  begin(isolate: Isolate, onTimeout: () => void): void {
    const endsAt = this.#host.monotonicMs() + START_TIMEOUT_MS
    const look = (): void => {
      void isolate.stack().then((stack) => {
        this.#stack = stack
      })
    }
    this.#timers = [
      timerAt(this.#host, endsAt - LOOK_MS, look),
      timerAt(this.#host, endsAt, () => {
        this.settle(tooSlow(this.kind, this.#stack))
        onTimeout()
      }),
    ]
  }

  /** The first answer counts. */
  settle(error: ErrorData | null): void {
    for (const timer of this.#timers) timer.cancel()
    this.#timers = []
    this.#answer(error)
  }
}

function tooSlow({ isolation, module }: IsolateKind, stack: readonly string[] | null): ErrorData {
  return {
    name: 'IsolateError',
    code: 'isolate_start_timeout',
    message:
      `The handler's ${isolation} did not load ${module} within ${String(START_TIMEOUT_MS / 1000)} s. Move slow work ` +
      `from the top level of the module into the handler.`,
    ...(stack === null ? {} : { stack: stack.join('\n') }),
  }
}
