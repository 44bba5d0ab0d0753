import { CancelledError, DeadlineError, LostLeaseError, ShutdownError, type StopError } from '../errors.ts'
import type { Stop } from './facts.ts'

/** The reason on a handler's signal, wherever the handler runs. */
export function stopError(stop: Stop): StopError {
  switch (stop.why) {
    case 'deadline':
      return new DeadlineError(stop.kind, stop.limitMs, stop.source)
    case 'cancelled':
      return new CancelledError()
    case 'shutdown':
      return new ShutdownError()
    case 'lost':
      return new LostLeaseError(stop.message)
  }
}
