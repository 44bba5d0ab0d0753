/** The pulse of the server: once a second what matters first. While it is not heard, the page says so. */
import { signal } from '@preact/signals'
import { follow } from './api.ts'
import { learnServerTime } from './time.ts'
import type { Counts } from './wire.ts'

export interface Pulse {
  readonly server_time: string
  readonly trouble: string | null
  readonly counts: Counts
  readonly rates: Readonly<Record<string, number>>
  readonly workers: { readonly total: number; readonly silent: number }
  readonly recent: {
    readonly overshoot_p99_ms: number | null
    readonly late_results_refused: number
  } | null
}

export const pulse = signal<Pulse | null>(null)

/** How exact the instant in a frame is: it has travelled. */
const TRAVEL_MS = 250
const AGAIN_MS = 1_000

/** One stream per tab that is looked at; a hidden one lets go of its connection. */
export function startPulse(): void {
  let open: AbortController | null = null
  const listen = async (): Promise<void> => {
    while (!document.hidden) {
      open = new AbortController()
      try {
        await follow('/api/v1/board/pulse', open.signal, (event, data) => {
          if (event !== 'pulse') return
          const frame = JSON.parse(data) as Pulse
          learnServerTime(Date.parse(frame.server_time), TRAVEL_MS)
          pulse.value = frame
        })
      } catch {
        // Said by the page: nothing was heard since.
      }
      open = null
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    }
  }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) open?.abort()
    else if (open === null) void listen()
  })
  void listen()
}
