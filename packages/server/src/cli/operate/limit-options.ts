/** Limits of jobs on the command line: `--timeout 30s`. */
import { SettingsError } from '../../settings.ts'
import type { Options } from '../frame/command.ts'
import { lengthOf, type Flags } from '../frame/flags.ts'

/** Limits by their names on the wire. */
const LIMIT_HELP = {
  timeout: 'one attempt',
  'total-timeout': 'the whole life of a job',
  'enqueue-ttl': 'waiting before the first start',
  'grace-period': 'time to stop, before an attempt is ended',
  'heartbeat-timeout': 'silence after which an attempt is stalled',
  'visibility-timeout': 'length of a reservation without a sign of life',
} as const

export const LIMITS: Options = {
  ...Object.fromEntries(Object.entries(LIMIT_HELP).map(([name, help]) => [name, { value: 'LENGTH', help }])),
  'on-timeout': { choices: ['retry', 'discard'], help: 'what happens to a job whose attempt times out' },
}

/** The limits that were given, in milliseconds; `none` removes one where that is allowed. */
export function limitsIn(flags: Flags, { prefix = '', mayRemove = false } = {}): Record<string, unknown> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(LIMIT_HELP)) {
    const text = flags.text(name)
    if (text === undefined) continue
    const field = `${prefix}${name.replaceAll('-', '_')}`
    if (text === 'none' && mayRemove) {
      found[field] = null
      found[`${field}_ms`] = null
    } else found[`${field}_ms`] = lengthOf(text, `--${name}`)
  }
  const mode = flags.text('on-timeout')
  if (mode !== undefined) found[`${prefix}x_on_timeout`] = mode
  return found
}

export function refuseNothing(fields: object, command: string): void {
  if (Object.keys(fields).length === 0)
    throw new SettingsError(`Name at least one thing to set. See curfew ${command} --help.`)
}
