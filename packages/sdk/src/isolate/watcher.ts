/**
 * A thread inside a process isolate that the handler cannot keep busy. Two duties:
 *
 * - Dead man's switch. It ends the whole process group when the worker is gone (its end of the pipe is closed), and when
 *   the hard deadline or the worker's lease has passed and the worker, stopped or starved, has not ended it. All processes
 *   of a machine read the same monotonic clock.
 * - It looks where the handler is stuck, when it is asked.
 */
import { Session } from 'node:inspector'
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { parentPort } from 'node:worker_threads'
import type { Timer } from '@curfew/core'
import { nodeHost } from '../host.ts'
import { timerAt } from '../attempt/timer-at.ts'
import { readLines } from './lines.ts'
import { FD, type FromWatcher, type ToWatcher } from './messages.ts'
import { STACK_QUESTION, stackIn, type StackAnswer } from './stack-question.ts'

/** The worker ends its isolates itself, and punctually: this long it is waited for. */
const SLACK_MS = 50

let timer: Timer | null = null

const fromWorker = new Socket({ fd: FD.toWatcher, readable: true, writable: false })
fromWorker.on('end', killGroup)
fromWorker.on('error', killGroup)
readLines(fromWorker, (line) => {
  const message = JSON.parse(line) as ToWatcher
  if (message.t === 'guard') guard(message.hardAt ?? Infinity, message.leaseAt ?? Infinity)
  else lookAtMainThread(message.id)
})
parentPort?.postMessage('ready')

function guard(hardAt: number, leaseAt: number): void {
  timer?.cancel()
  timer = timerAt(nodeHost, Math.min(hardAt, leaseAt) + SLACK_MS, () => {
    send({ t: 'last', why: hardAt <= leaseAt ? 'hard' : 'lease' })
    killGroup()
  })
}

function send(message: FromWatcher): void {
  try {
    writeSync(FD.fromWatcher, `${JSON.stringify(message)}\n`)
  } catch {
    // The worker closed its end.
  }
}

function killGroup(): void {
  try {
    process.kill(-process.pid, 'SIGKILL')
  } catch {
    process.kill(process.pid, 'SIGKILL') // where there are no process groups
  }
}

function lookAtMainThread(id: number): void {
  const session = new Session()
  session.connectToMainThread()
  session.post('Runtime.evaluate', STACK_QUESTION, (error, answer) => {
    session.disconnect()
    send({ t: 'stack', id, stack: error === null ? stackIn(answer as StackAnswer) : null })
  })
}
