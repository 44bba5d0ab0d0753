/** Delay before a background loop retries after an error. */
import type { Context } from './context.ts'
import { until } from './until.ts'

const RETRY_DELAY_MS = 1_000

/** Ends early when the server stops. */
export async function retryDelay({ host, closing }: Pick<Context, 'host' | 'closing'>): Promise<void> {
  await until(host, { signals: [closing], ms: RETRY_DELAY_MS })
}
