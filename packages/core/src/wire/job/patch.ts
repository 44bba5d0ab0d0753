/** A PATCH of a job's limits, and the overrides of a retry by hand, laid over what the job was given. */
import { badField } from '../../errors.ts'
import type { Fragment } from '../../job/job.ts'
import type { AskedLimits, SettledName } from '../../job/limits.ts'
import type { Instant } from '../../time/clock.ts'
import type { NamedMoment } from '../../time/durations.ts'
import { LIMIT_KEYS, writeGiven } from './given.ts'
import { isGiven } from '../is-given.ts'
import { OPTION_SHAPES, readMoment } from './job-shapes.ts'
import { limitsNamed, readLimits } from './limits.ts'
import { didYouMean } from '../names/near-miss-words.ts'
import { nearestName, vocabulary } from '../names/near-miss.ts'
import { anyObject, object, type Fields, type Shape } from '../shape.ts'

const OVERRIDE_KEYS = [...LIMIT_KEYS, 'priority']
const PATCH_KEYS = [...OVERRIDE_KEYS, 'scheduled_at', 'delay_until', 'expires_at']

/** The documented form of a change of limits. `null` removes what was given. */
export const PATCH_SHAPE = changesOf(PATCH_KEYS)
export const OVERRIDE_SHAPE = changesOf(OVERRIDE_KEYS)

function changesOf(keys: readonly string[]): Shape<Fields> {
  const fields = Object.fromEntries(keys.map((key) => [key, OPTION_SHAPES[key as keyof typeof OPTION_SHAPES]]))
  return object({ ...fields, options: object(fields, { unknown: 'refuse' }) }, { unknown: 'refuse' })
}

export interface PatchedEnvelope {
  readonly asked: AskedLimits
  /** The limits that the change speaks of. */
  readonly named: ReadonlySet<SettledName>
  readonly given: Fragment
  readonly priority: number | null
  readonly scheduled: NamedMoment | null
  readonly expires: NamedMoment | null
}

/** What was given, with a PATCH laid over it: by key, a twin replaces its twin, `null` removes. */
export function patchGiven(given: Fragment, sent: unknown, now: Instant): PatchedEnvelope {
  return laidOver(given, sent, now, { keys: PATCH_KEYS, shape: PATCH_SHAPE, at: '' })
}

/** What was given, with what a retry by hand is to change laid over it. */
export function overrideGiven(given: Fragment, sent: unknown, now: Instant): PatchedEnvelope {
  return laidOver(given, sent, now, { keys: OVERRIDE_KEYS, shape: OVERRIDE_SHAPE, at: 'override' })
}

/** `at`: where it lies in the body of the call. */
function laidOver(
  given: Fragment,
  sent: unknown,
  now: Instant,
  { keys, shape, at }: { readonly keys: readonly string[]; readonly shape: Shape<Fields>; readonly at: string },
): PatchedEnvelope {
  const inside = at === '' ? '' : `${at}.`
  const top = anyObject().read(sent, at)
  const options = isGiven(top['options']) ? anyObject().read(top['options'], `${inside}options`) : {}
  const changes: Record<string, unknown> = {}
  for (const [from, prefix] of [
    [options, `${inside}options.`],
    [top, inside],
  ] as const) {
    for (const [key, value] of Object.entries(from)) {
      if (key === 'options' && prefix === inside) continue
      if (!keys.includes(key)) {
        const nearest = nearestName(key, vocabulary(keys))
        const meant = nearest === null ? '' : ` ${didYouMean(nearest)}`
        throw badField(`${prefix}${key}`, `${key} cannot be changed.${meant} What can: ${keys.join(', ')}.`)
      }
      changes[key === 'delay_until' ? 'scheduled_at' : key] = value
    }
  }
  shape.read(top, at)
  const known = JSON.parse(`{${given}}`) as Record<string, unknown>
  const bareAllowed = isGiven(top['delay_until']) || isGiven(options['delay_until'])
  for (const [key, value] of Object.entries(changes)) {
    const twin = key.endsWith('_ms') ? key.slice(0, -3) : `${key}_ms`
    if (changes[twin] === undefined && LIMIT_KEYS.includes(key)) delete known[twin]
    if (value === null) delete known[key]
    else if (key !== 'priority') known[key] = value
  }
  const priority = changes['priority']
  const scheduled = readMoment(known, 'scheduled_at', now, bareAllowed)
  const expires = readMoment(known, 'expires_at', now)
  return {
    asked: readLimits(known, '', inside),
    named: limitsNamed(Object.keys(changes)),
    given: writeGiven(known, scheduled, expires),
    priority:
      priority === undefined
        ? null
        : priority === null
          ? 0
          : OPTION_SHAPES.priority.read(priority, `${inside}priority`),
    scheduled,
    expires,
  }
}
