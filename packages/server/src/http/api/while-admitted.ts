/** A stream that ends when the token of its reader does not count any more. */
import { onAbort } from '../../engine/kernel/until.ts'

const OVER: IteratorResult<string, undefined> = { done: true, value: undefined }

export async function* whileAdmitted(stream: AsyncIterable<string>, ended: AbortSignal): AsyncIterable<string> {
  const chunks = stream[Symbol.asyncIterator]()
  // One listener for the whole stream, whatever its length.
  let stop = (): void => {}
  const unhook = onAbort([ended], () => {
    stop()
  })
  try {
    while (!ended.aborted) {
      const next = await new Promise<IteratorResult<string, unknown>>((resolve, reject) => {
        stop = () => {
          resolve(OVER)
        }
        chunks.next().then(resolve, reject)
      })
      if (next.done === true) return
      yield next.value
    }
  } finally {
    unhook()
    // It may wait for something to happen: it ends when it goes on.
    void chunks.return?.()
  }
}
