/** Where the thread that judges a definition begins, and ends with its answer. */
import { clockFrom, readDefinition, seededRandom, type DeployedVersion } from '@curfew/core'
import { parentPort, workerData } from 'node:worker_threads'
import { checksWith, judge, trusting } from '../engine/definitions/verdict.ts'
import { InProcessExpressions } from '../expressions/in-process.ts'
import { nodeHost } from '../host.ts'
import { LATER, type Told, type ToJudge } from './judge-messages.ts'

const { text, limits, isDeployed } = workerData as ToJudge

// As text: to copy a value piece by piece would take the server longer than to parse it.
const answer = (value: unknown): void => {
  parentPort?.postMessage(JSON.stringify(value))
}

if (isDeployed) {
  const { source } = JSON.parse(text) as DeployedVersion
  void readDefinition(source, trusting(limits)).then(({ definition }) => {
    answer(definition)
  })
} else {
  // Expressions are parsed here, and one is tried on a sample: chance plays no part.
  const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: seededRandom(1) })
  void judge(text, checksWith(expressions, limits), () => Promise.resolve()).then(({ locate, ...verdict }) => {
    const places = LATER.map((path) => {
      const { line, column } = locate({ code: '', path, message: '', on: 'value' })
      return [path, { line, column }] as const
    })
    const told: Told = { ...verdict, places: Object.fromEntries(places) }
    answer(told)
  })
}
