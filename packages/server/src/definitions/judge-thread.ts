/**
 * Judges definitions in a thread, one after the other: a text of a mebibyte takes seconds, and everybody else's deadlines
 * go on meanwhile. Each gets a thread of its own, whose memory is bounded; it costs some tens of milliseconds to begin.
 */
import { parseStored, type Definition } from '@curfew/core'
import { Worker } from 'node:worker_threads'
import type { JudgeBeside, ReadBeside, Verdict } from '../engine/definitions/verdict.ts'
import { inPieces } from '../engine/kernel/turns.ts'
import { nodeHost } from '../host.ts'
import type { Told, ToJudge } from './judge-messages.ts'

const MEMORY_MB = 512

export function judgeInThreads(): JudgeBeside {
  let before: Promise<unknown> = Promise.resolve()
  return (text, limits) => {
    const verdict = before.then(() => judgeOne({ text, limits, isDeployed: false }))
    before = verdict.catch(() => {})
    return verdict
  }
}

/** Reads deployed definitions again, which takes long as well. */
export function readInThreads(): ReadBeside {
  return async (text, limits) => {
    const told = await answerTo({ text, limits, isDeployed: true })
    return told === null ? null : ((await parsed(told)) as Definition | null)
  }
}

/** Threads run plain JavaScript: from the sources, as in tests, the built file is taken. */
function entryUrl(): URL {
  const here = import.meta.url
  return new URL(here.endsWith('.ts') ? '../../dist/definitions/judge-main.js' : './judge-main.js', here)
}

async function judgeOne(asked: ToJudge): Promise<Verdict> {
  const told = await answerTo(asked)
  return told === null ? TOO_MUCH : verdictFrom((await parsed(told)) as Told)
}

/** The answer is several times as long as the text that was judged. */
const parsed = async (told: string): Promise<unknown> => inPieces(nodeHost, parseStored(told))

/** Null: it took too much memory. */
function answerTo(asked: ToJudge): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(entryUrl(), {
      ...{ workerData: asked, name: 'curfew definitions', env: {}, execArgv: [] },
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    })
    worker.unref()
    worker.on('message', resolve)
    worker.on('error', (error: Error & { code?: string }) => {
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') resolve(null)
      else reject(error)
    })
    worker.on('exit', () => {
      reject(new Error('the thread that judges definitions ended without an answer'))
    })
  })
}

function verdictFrom({ places, ...verdict }: Told): Verdict {
  return {
    ...verdict,
    locate: ({ code, path, message }) => ({ code, path, ...(places[path] ?? { line: 1, column: 1 }), message }),
  }
}

const TOO_MUCH: Verdict = {
  definition: null,
  source: null,
  errors: [{ code: 'SYNTAX-1', path: '', line: 1, column: 1, message: 'The text takes too much memory to be read.' }],
  warnings: [],
  locate: ({ code, path, message }) => ({ code, path, line: 1, column: 1, message }),
}
