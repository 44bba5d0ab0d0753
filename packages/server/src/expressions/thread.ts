/**
 * Expressions evaluated in a thread beside the server, for authors one does not trust: the same code, and a thread that is
 * ended if it does not answer in time. The limits within stay as they are, because a thread shares the memory of its
 * process: a string that is too large for V8 ends both.
 *
 * One evaluation is out at a time, so that the time of one is never used up by another.
 */
import { Worker } from 'node:worker_threads'
import type { Host, Timer } from '@curfew/core'
import { ExpressionError, type EvaluationTerms, type Expressions } from '../engine/expressions.ts'
import type { ExpressionPorts } from './in-process.ts'
import { truth } from './languages.ts'
import { checkedLimits, tooLarge, tooMuch, type EvaluationLimits } from './limits.ts'
import { MAX_STANDSTILL_MS } from './meter.ts'
import type { Answer, Question } from './thread-messages.ts'

/** How long a thread may take beyond the time of the evaluation itself before it is ended. */
const GRACE_MS = 50 + MAX_STANDSTILL_MS
/** For what has no time of its own: loading a thread, and reading a text. Generous, for machines with too much to do. */
const START_MS = 5_000
const MEMORY_MB = 128

interface Asked {
  readonly answer: (answer: Answer) => void
  readonly fail: (error: ExpressionError) => void
}

export class ThreadExpressions implements Expressions {
  readonly #ports: ExpressionPorts
  readonly #limits: EvaluationLimits
  readonly #entry: URL
  #thread: Thread | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  /** `entry` is what the thread runs; tests hand in another. */
  constructor(ports: ExpressionPorts, limits: Partial<EvaluationLimits> = {}, entry: URL = entryUrl()) {
    this.#ports = ports
    this.#limits = checkedLimits(limits)
    this.#entry = entry
  }

  async check(lang: unknown, text: unknown): Promise<void> {
    await this.#inLine(async () => (await this.#running()).ask({ t: 'check', lang, text }, START_MS))
  }

  evaluate(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<unknown> {
    const { host, clock, random } = this.#ports
    const giveUpAtMs = host.monotonicMs() + terms.budgetMs
    return this.#inLine(async () => {
      const thread = await this.#running()
      const budgetMs = giveUpAtMs - host.monotonicMs()
      if (!(budgetMs > 0)) throw tooMuch('There is no time left for the expression.')
      const timeMs = Math.min(this.#limits.maxEvalMs, budgetMs)
      // Chance cannot be asked for across threads: it is handed over as a seed.
      const seed = Math.floor(random() * 2 ** 32)
      return thread.ask({ t: 'evaluate', lang, text, document, budgetMs, nowMs: clock.now(), seed }, timeMs)
    })
  }

  async holds(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<boolean> {
    return truth(await this.evaluate(lang, text, document, terms))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#thread?.end(new ExpressionError('JN_ENGINE_INTERNAL_ERROR', 'The server is closing.'))
    await this.#last
  }

  #inLine<T>(task: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(task)
    this.#last = mine.catch(() => undefined)
    return mine
  }

  /** The thread, ready to answer. To load it takes a while, which counts as time of the first caller only. */
  async #running(): Promise<Thread> {
    if (this.#isClosed) throw new ExpressionError('JN_ENGINE_INTERNAL_ERROR', 'The server is closing.')
    if (this.#thread !== undefined && !this.#thread.isGone) return this.#thread
    this.#thread = new Thread(this.#ports.host, this.#limits, this.#entry)
    await this.#thread.ask({ t: 'check', lang: 'jsonata', text: '1' }, START_MS)
    return this.#thread
  }
}

/** Threads run plain JavaScript: from the sources, as in tests, the built file is taken. */
function entryUrl(): URL {
  const here = import.meta.url
  return new URL(here.endsWith('.ts') ? '../../dist/expressions/thread-main.js' : './thread-main.js', here)
}

class Thread {
  readonly #host: Host
  readonly #worker: Worker
  #asked: Asked | undefined
  isGone = false

  constructor(host: Host, limits: EvaluationLimits, entry: URL) {
    this.#host = host
    this.#worker = new Worker(entry, {
      ...{ workerData: limits, name: 'curfew expressions', env: {}, execArgv: [] },
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB, maxYoungGenerationSizeMb: 12 },
    })
    this.#worker.unref()
    this.#worker.on('message', (answer: Answer) => this.#asked?.answer(answer))
    this.#worker.on('error', (error: Error & { code?: string }) => {
      const isMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      void this.end(
        isMemory
          ? tooLarge('The expression uses too much memory.')
          : new ExpressionError('JN_ENGINE_INTERNAL_ERROR', 'The thread of expressions failed.', undefined, error),
      )
    })
    this.#worker.on('exit', () => {
      void this.end(new ExpressionError('JN_ENGINE_INTERNAL_ERROR', 'The thread of expressions has ended.'))
    })
  }

  ask(question: Question, timeMs: number): Promise<unknown> {
    return new Promise<unknown>((resolve, reject) => {
      const timer: Timer = this.#host.setTimer(timeMs + GRACE_MS, () => {
        void this.end(tooMuch(`The expression took longer than ${String(Math.round(timeMs))} ms.`))
      })
      const done = (): void => {
        timer.cancel()
        this.#asked = undefined
        this.#worker.unref()
      }
      this.#asked = {
        answer: (answer) => {
          done()
          if (answer.ok) resolve(answer.value)
          else reject(new ExpressionError(answer.code, answer.message, answer.position))
        },
        fail: (error) => {
          done()
          reject(error)
        },
      }
      this.#worker.ref()
      try {
        this.#worker.postMessage(question)
      } catch (error) {
        this.#asked.fail(new ExpressionError('JN_TYPE_MISMATCH', 'The document is not plain JSON.', undefined, error))
      }
    })
  }

  async end(error: ExpressionError): Promise<void> {
    this.isGone = true
    this.#asked?.fail(error)
    await this.#worker.terminate()
  }
}
