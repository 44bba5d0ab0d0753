/** Lengths of time as applications write them: '30s', '1h30m', 'PT5M' or { ms: 250 }. A bare number has no unit. */
import { formatIsoDuration, MAX_DURATION_MS, millis, parseDuration, type Millis } from '@curfew/core'
import { InputError } from './errors.ts'

export type Duration = string | { readonly ms: number }

/** `name` is what the length is for, as the caller wrote it: it stands in the refusal. */
export function toMillis(duration: Duration, name: string): Millis {
  const given: unknown = duration
  if (typeof given === 'number') {
    throw new InputError(
      `${name} is the bare number ${String(given)}: say the unit, as in '${String(given)}s' or { ms: ${String(given)} }.`,
      { field: name },
    )
  }
  const ms = typeof given === 'string' ? parseDuration(given) : fromObject(given)
  if (ms === null || ms > MAX_DURATION_MS) {
    throw new InputError(
      `${name} is not a valid duration: ${shown(given)}. Write '30s', '1h30m', 'PT5M' or { ms: 250 }.`,
      {
        field: name,
      },
    )
  }
  return ms
}

/** So much later than the server's now, as the Open Job Spec writes it: `+PT5M`. */
export function formatDelay(duration: Duration, name: string): string {
  return `+${formatIsoDuration(toMillis(duration, name))}`
}

function fromObject(given: unknown): Millis | null {
  if (typeof given !== 'object' || given === null || !('ms' in given)) return null
  const { ms } = given
  return typeof ms === 'number' && Number.isInteger(ms) && ms >= 0 ? millis(ms) : null
}

function shown(given: unknown): string {
  return (JSON.stringify(given) ?? typeof given).slice(0, 60)
}
