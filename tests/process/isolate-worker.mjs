// A worker as small as can be, for tests that kill or stop it: it runs handlers in processes and tells their pids.
//
//   close   one handler that is done and one that is busy, then closes
//   run     two busy handlers, for ever
//   lease   the same with a lease of 1.5 s that is renewed while this process runs
//   hard    the same with a hard deadline 3 s from now
//   nested  the isolates belong to a thread, one handler is busy in a thread below it, and so is the main thread
import { writeSync } from 'node:fs'
import { isMainThread, Worker } from 'node:worker_threads'
import { Isolates } from '../../packages/sdk/dist/isolate/isolates.js'

const how = process.argv[2]
const now = () => Number(process.hrtime.bigint()) / 1e6
const host = {
  wallMs: () => Date.now(),
  monotonicMs: now,
  setTimer(ms, fire) {
    const timer = setTimeout(fire, ms)
    return { cancel: () => clearTimeout(timer) }
  },
  defer: (run) => setImmediate(run),
}
const log = { debug() {}, info() {}, warn() {}, error() {} }
let onEnded = () => {}
let onCall = () => {}

const isolates = new Isolates({
  host,
  most: 4,
  log,
  onCall(key, id, call) {
    for (const pid of [call.data?.pid, call.data?.grandchild]) if (pid !== undefined) console.log(`pid ${pid}`)
    isolates.reply(key, id, { ok: true, value: null })
    onCall(key)
  },
  onStack() {},
  onEnded(key, ending) {
    // Not over the main thread, which may be busy.
    writeSync(1, `ended ${ending.kind} ${ending.stop?.why ?? ''}\n`)
    if (how === 'nested') writeSync(1, `${ending.stack?.[0] ?? 'no stack'}\n`)
    // On a machine with too much to do the look may come too late.
    if (how === 'nested' && !ending.stack) run(`${key}+`, 'spin', 2_000, 'thread')
    onEnded(key)
  },
})

function run(key, exportName, hardMs = 600_000, isolation = 'process') {
  const softAt = now() + hardMs
  isolates.run({
    key,
    isolation,
    module: new URL('./handlers/handlers.mjs', import.meta.url).href,
    exportName,
    memoryMb: null,
    serverEndsAt: softAt + 250,
    facts: {
      jobId: key,
      type: 'test.job',
      queue: 'default',
      attempt: 1,
      lease: 1,
      maxAttempts: null,
      args: [],
      meta: {},
      lastCheckpoint: null,
      softAt,
      softStop: { why: 'deadline', kind: 'execution', limitMs: hardMs, source: 'handler' },
      hardAt: softAt,
    },
  })
}

if (how === 'nested' && isMainThread) {
  new Worker(new URL(import.meta.url), { argv: ['nested'] })
  setTimeout(() => {
    for (;;);
  }, 500)
} else if (how === 'nested') {
  run('a', 'spin', 2_000, 'thread')
} else if (how === 'close') {
  const ended = new Promise((resolve) => (onEnded = resolve))
  run('a', 'print')
  await ended
  run('b', 'whereAmI')
  const called = new Promise((resolve) => (onCall = resolve))
  run('c', 'startBusyGrandchild')
  await called
  await isolates.close()
} else {
  if (how === 'lease') {
    const renew = () => isolates.renew(now() + 1_500)
    renew()
    setInterval(renew, 200)
  }
  const hardMs = how === 'hard' ? 3_000 : undefined
  run('a', 'reportAndSpin', hardMs)
  run('b', 'startBusyGrandchild', hardMs)
}
