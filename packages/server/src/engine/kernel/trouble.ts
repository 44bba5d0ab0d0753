/** Those who keep something going on their own try again after trouble, but not at once. */
import type { Engine } from './engine.ts'

const TROUBLE_MS = 1_000

/** For a moment, or until the server stops. */
export function restAfterTrouble({ host, closing }: Pick<Engine, 'host' | 'closing'>): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      timer.cancel()
      closing.removeEventListener('abort', done)
      resolve()
    }
    const timer = host.setTimer(TROUBLE_MS, done)
    closing.addEventListener('abort', done, { once: true })
    if (closing.aborted) done()
  })
}
