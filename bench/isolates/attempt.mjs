// What does an attempt cost in a warm thread and in a warm process, beside a plain call?
import { createContext } from '../../packages/sdk/dist/attempt/context.js'
import { runHandler } from '../../packages/sdk/dist/define-handler.js'
import { nodeHost } from '../../packages/sdk/dist/host.js'
import { row } from '../lib/report.mjs'
import { empty } from './handlers.mjs'
import { inOwner } from './owner.mjs'

export const name = 'Cost of an attempt'

export async function run({ quick }) {
  const args = quick ? { cold: 3, warm: 200, rounds: 3 } : { cold: 20, warm: 2_000, rounds: 7 }
  const thread = await inOwner('attempts', { isolation: 'thread', ...args })
  const process = await inOwner('attempts', { isolation: 'process', ...args })
  return {
    name,
    question:
      `An empty handler, ${args.warm} attempts a round, one after another: what the way there and back costs. In line it ` +
      'is the same context and a plain call. Below it the first attempt in a new isolate, until its end is reported.',
    rows: [
      row('in line', 'µs', await inLine(args)),
      row('warm thread', 'µs', thread.costs),
      row('warm process', 'µs', process.costs),
      row('new thread, first attempt', 'ms', thread.starts),
      row('new process, first attempt', 'ms', process.starts),
    ],
  }
}

async function inLine({ warm, rounds }) {
  const costs = []
  const facts = { args: [], softAt: Infinity }
  for (let round = 0; round < rounds; round += 1) {
    const began = performance.now()
    for (let n = 0; n < warm; n += 1) {
      const aborter = new AbortController()
      await runHandler(empty, createContext(facts, aborter.signal, { host: nodeHost, call: async () => null }))
    }
    costs.push(((performance.now() - began) / warm) * 1_000)
  }
  return costs
}
