/**
 * Asks a thread where it is. Only the main thread's inspector knows all threads, nested ones too, so it is asked even when
 * we are a thread ourselves; it answers though the main thread is busy. One session for each question: nothing of the
 * inspector is there in normal operation.
 */
import type { Session } from 'node:inspector'
import { isMainThread } from 'node:worker_threads'
import { STACK_QUESTION, stackIn, type StackAnswer } from './stack-question.ts'

interface Attached {
  readonly params: { readonly sessionId: string; readonly workerInfo: { readonly title: string } }
}

interface Received {
  readonly params: { readonly sessionId: string; readonly message: string }
}

/** May never answer: the caller has a deadline. `close` ends the asking. */
export interface Asked {
  readonly stack: Promise<readonly string[] | null>
  close(): void
}

export function askThread(threadId: number): Asked {
  let session: Session | null = null
  let isClosed = false
  const close = (): void => {
    isClosed = true
    session?.disconnect()
    session = null
  }
  const stack = import('node:inspector')
    .then(({ Session }) => {
      if (isClosed) return null
      session = new Session()
      return ask(session, threadId, () => !isClosed)
    })
    // A Node without inspector, or a debugger that is in the way: then it is not seen.
    .catch(() => null)
    .finally(close)
  return { stack, close }
}

/** `isOpen`: events still arrive after the session was closed. */
function ask(session: Session, threadId: number, isOpen: () => boolean): Promise<readonly string[] | null> {
  return new Promise((resolve, reject) => {
    if (isMainThread) session.connect()
    else session.connectToMainThread()
    let asked: string | null = null
    session.on('NodeWorker.attachedToWorker', ({ params: { sessionId, workerInfo } }: Attached) => {
      // The id among `workerInfo` counts sessions; that of the thread stands in its title: `[worker 7] …`.
      if (!isOpen() || /\bworker (\d+)/i.exec(workerInfo.title)?.[1] !== String(threadId)) return
      asked = sessionId
      const message = JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: STACK_QUESTION })
      session.post('NodeWorker.sendMessageToWorker', { sessionId, message })
    })
    session.on('NodeWorker.receivedMessageFromWorker', ({ params: { sessionId, message } }: Received) => {
      if (sessionId !== asked) return
      const { id, result } = JSON.parse(message) as { id?: number; result?: StackAnswer }
      if (id === 1) resolve(stackIn(result ?? {}))
    })
    session.post('NodeWorker.enable', { waitForDebuggerOnStart: false }, (error) => {
      if (error !== null) reject(error)
    })
  })
}
