/** Where the thread that judges a definition begins, and ends with its answer. */
import { clockFrom, seededRandom } from '@curfew/core'
import { parentPort, workerData } from 'node:worker_threads'
import { checksWith, judge } from '../engine/definition-verdict.ts'
import { InProcessExpressions } from '../expressions/in-process.ts'
import { nodeHost } from '../host.ts'
import { LATER, type Told, type ToJudge } from './judge-messages.ts'

const { text, limits } = workerData as ToJudge
// Expressions are parsed here and not evaluated: time and chance play no part.
const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: seededRandom(1) })
void judge(text, checksWith(expressions, limits), () => Promise.resolve()).then(({ locate, ...verdict }) => {
  const places = LATER.map((path) => {
    const { line, column } = locate({ code: '', path, message: '', on: 'value' })
    return [path, { line, column }] as const
  })
  const told: Told = { ...verdict, places: Object.fromEntries(places) }
  // As text: to copy it value by value would take the server longer than to parse it.
  parentPort?.postMessage(JSON.stringify(told))
})
