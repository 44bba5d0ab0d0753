/** Where the thread of expressions begins. Time and chance are those of the server, sent along with each question. */
import { parentPort, workerData } from 'node:worker_threads'
import { instant, seededRandom, type Clock, type Random } from '@curfew/core'
import { ExpressionError } from '../engine/expressions.ts'
import { nodeHost } from '../host.ts'
import { InProcessExpressions } from './in-process.ts'
import type { EvaluationLimits } from './limits.ts'
import type { Answer, Question } from './thread-messages.ts'

const sent: { nowMs: number; random: Random } = { nowMs: 0, random: () => 0 }
const clock: Clock = { now: () => instant(sent.nowMs) }
const expressions = new InProcessExpressions(
  { host: nodeHost, clock, random: () => sent.random() },
  workerData as EvaluationLimits,
)

async function answer(question: Question): Promise<Answer> {
  try {
    if (question.t === 'check') {
      await expressions.check(question.lang, question.text)
      return { ok: true, value: null }
    }
    const { lang, text, document, budgetMs, nowMs, seed } = question
    Object.assign(sent, { nowMs, random: seededRandom(seed) })
    return { ok: true, value: await expressions.evaluate(lang, text, document, { budgetMs }) }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return { ok: false, code: error.code, message: error.message, position: error.position }
  }
}

parentPort?.on('message', (question: Question) => {
  void answer(question).then((said) => {
    parentPort?.postMessage(said)
  })
})
