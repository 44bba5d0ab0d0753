/** A worker of the SDK in a process of its own, as an application would write it. Environment: URL, JOURNAL, WHO. */
import { Worker } from '@curfew/sdk'
import { Journal } from './journal.ts'
import { JOB_TYPE, type Behaviour } from './load.ts'

const { URL: url = '', JOURNAL = '.', WHO = 'sdk' } = process.env
const journal = new Journal(JOURNAL, WHO)
const silent = (): void => {}

const worker = new Worker({
  url,
  queues: ['sdk'],
  concurrency: 6,
  drain: '1s',
  log: { debug: silent, info: silent, warn: silent, error: silent },
})

worker.handle(JOB_TYPE, {}, async (ctx, args) => {
  const [{ does, forMs }] = args as [Behaviour]
  const request = { id: ctx.jobId, attempt: ctx.attempt, remaining: ctx.remaining(), checkpoint: ctx.lastCheckpoint }
  const n = journal.sent('handler', request)
  try {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, does === 'hang' ? 60_000 : forMs)
      ctx.signal.addEventListener('abort', () => {
        clearTimeout(timer)
        resolve()
      })
    })
    if (!ctx.signal.aborted && does === 'checkpoint') {
      const c = journal.sent('checkpoint', { job_id: ctx.jobId, state: { text: `${ctx.jobId}/${WHO}/${String(n)}` } })
      await ctx.checkpoint({ text: `${ctx.jobId}/${WHO}/${String(n)}` })
      journal.answered(c, 'checkpoint', { status: 200 })
    }
  } finally {
    journal.answered(n, 'handler', {
      status: 200,
      reason: String((ctx.signal.reason as Error | undefined)?.name ?? ''),
    })
  }
  if (ctx.signal.aborted) throw ctx.signal.reason as Error
  if (does === 'fail') throw new Error('it failed')
  return { by: `${WHO}#${String(n)}` }
})

void worker.start().then(() => process.stdout.write('ready\n'))
await worker.run()
