// A handler of several steps. It writes down every place it passes, and pulls the plug on its worker at one of them.
import { appendFileSync, readFileSync } from 'node:fs'

const { journal, plug, isolation, steps } = JSON.parse(process.env.STEPS)
let passed = 0

/** Places are counted over all jobs of the process. */
function pass(ctx, where, step) {
  passed += 1
  const line = { jobId: ctx.jobId, lease: ctx.lease, pid: process.pid, where, step, leftMs: ctx.remaining() }
  appendFileSync(journal, `${JSON.stringify(line)}\n`)
  if (passed !== plug) return
  appendFileSync(journal, `${JSON.stringify({ ...line, where: `killed ${where}` })}\n`)
  // A process of its own is a child of the worker's.
  process.kill(isolation === 'process' ? process.ppid : process.pid, 'SIGKILL')
}

export default async function work(ctx) {
  const results = []
  for (let index = 0; index < steps; index += 1) {
    const name = `step-${index}`
    pass(ctx, 'before', name)
    const result = await ctx.step(name, { timeout: '20s' }, () => {
      pass(ctx, 'begin', name)
      const token = `${process.pid}:${readFileSync(journal, 'utf8').length}`
      pass(ctx, 'end', name)
      return { name, token }
    })
    pass(ctx, 'stored', name)
    results.push(result)
    if (index === 1) await ctx.sleep('pause', { ms: 50 })
  }
  return results
}
