// One SIGTERM, in this order: take no more requests, finish those under way, finish the jobs under way, then leave.
// The client is closed last, because requests and jobs use it.

/** `closeHttp` resolves when no request is under way any more. */
export function stopOnSignal({ closeHttp, worker, client }) {
  let stopping = null
  const stop = () => {
    stopping ??= (async () => {
      await Promise.all([closeHttp(), worker?.stop()])
      await client.close()
    })()
    return stopping
  }
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => void stop())
  return stop
}
