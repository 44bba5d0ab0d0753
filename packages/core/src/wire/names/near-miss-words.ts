/** What is answered to fields that are nearly known: warnings, or a refusal. */
import { badPolicy, OjsError } from '../../errors.ts'
import { nearestName, type NearMiss, type Vocabulary } from './near-miss.ts'

const NO_WARNINGS: readonly string[] = []
/** Of one object; more would only repeat it. */
const MAX_WARNINGS = 20

export function nearMissWarnings(misses: readonly NearMiss[]): readonly string[] {
  if (misses.length === 0) return NO_WARNINGS
  const warnings = misses
    .slice(0, MAX_WARNINGS)
    .map(({ field, nearest, isOutweighed }) =>
      isOutweighed === true
        ? `${outweighed(field, nearest)}. Send one of them.`
        : `${isNotKnown(field)} and has no effect. ${didYouMean(nearest)}`,
    )
  if (misses.length > MAX_WARNINGS)
    warnings.push(`${String(misses.length - MAX_WARNINGS)} more fields are not known either.`)
  return warnings
}

/** For servers that were started with `--strict`. */
export function refuseNearMisses(misses: readonly NearMiss[]): void {
  const [first] = misses
  if (first === undefined) return
  const { field, nearest, isOutweighed } = first
  const { code, details } = badPolicy(field, '')
  const why = isOutweighed === true ? `${outweighed(field, nearest)}.` : `${isNotKnown(field)}. ${didYouMean(nearest)}`
  throw new OjsError(code, why, {
    details: { ...details, nearest, near_misses: misses.slice(0, MAX_WARNINGS) },
    hint: 'Rename the field or leave it out. This server runs with --strict, which refuses fields that are nearly known.',
  })
}

const isNotKnown = (field: string): string => `${field} is not a known field`
const outweighed = (field: string, by: string): string => `${field} has no effect: ${by} differs from it and counts`
export const didYouMean = (name: string): string => `Did you mean ${name}?`

/** For objects that refuse what they do not know. */
export function unknownKey(key: string, known: Vocabulary): string {
  const nearest = nearestName(key, known)
  const meant = nearest === null ? '' : ` ${didYouMean(nearest)}`
  return `Unknown key ${JSON.stringify(key)}.${meant} Known: ${known.names.join(', ')}.`
}
