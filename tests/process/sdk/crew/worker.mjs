// A process with one worker or several, as an application would write it. It is controlled by signals:
// those of the SDK, and SIGUSR2, which calls stop() without run() and leaves the process alive.
import { Worker } from '@curfew/sdk'
import { write } from './handlers.mjs'

const { url, workers, isolation, limits, ownSignals } = JSON.parse(process.env.CREW)
const module = new URL('./handlers.mjs', import.meta.url)

const crew = workers.map((settings) => {
  const worker = new Worker({ url, ...settings })
  worker.handle('crew.work', { ...limits, module, isolation })
  return worker
})

/** After the listeners of the SDK: when the line is there, the worker has changed its state. */
function noteSignals() {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGTSTP', 'SIGCONT'])
    process.on(signal, () => write({ what: `signal:${signal}` }))
}

if (ownSignals) {
  const [worker] = crew
  const over = worker.run()
  noteSignals()
  process.stdout.write('listening\n')
  await worker.start()
  process.stdout.write('ready\n')
  await over
  process.stdout.write('ended\n')
} else {
  process.on('SIGUSR2', async () => {
    await Promise.all(crew.map((worker) => worker.stop()))
    write({ what: 'stopped' })
  })
  await Promise.all(crew.map((worker) => worker.start()))
  process.stdout.write('ready\n')
}
