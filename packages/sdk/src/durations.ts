/** Lengths of time as applications write them: '30s', '1h30m', 'PT5M' or { ms: 250 }. A bare number has no unit. */
import { formatIsoDuration, MAX_DURATION_MS, millis, parseDuration, type Millis } from '@curfew/core'
import { InputError } from './errors.ts'

type Part = `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** A text that is written out is checked by the compiler; one that comes from elsewhere by `duration(text)`. */
export type Duration = Part | `${Part}${Part}` | `${Part}${Part}${Part}` | `P${string}` | { readonly ms: number }

/** A length from outside, such as a setting: `duration(process.env.TIMEOUT ?? '30s')`. Throws an InputError. */
export function duration(text: string): Duration {
  return { ms: toMillis(text as Duration, 'duration') }
}

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
