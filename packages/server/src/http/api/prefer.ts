/** `Prefer: return=minimal` (RFC 7240): the answer leaves out what the caller sent itself. */
import { textOfMember, type Job, type Json } from '@curfew/core'
import { objectOf, type Answer } from './message.ts'
import type { Call } from './route.ts'

/** Preferences are separated by commas, and may have parameters after a semicolon. The first `return` counts. */
const RETURN = /(?:^|,)\s*return\s*=\s*"?([a-z]+)"?\s*(?=[;,]|$)/i

export function prefersMinimal({ request }: Call): boolean {
  const prefer = request.headers['prefer']
  return prefer !== undefined && RETURN.exec(prefer)?.[1]?.toLowerCase() === 'minimal'
}

/** Says that the preference was followed. */
export const MINIMAL_APPLIED: NonNullable<Answer['headers']> = { 'Preference-Applied': 'return=minimal' }

/** What the caller cannot know: the id it was given, where the job stands, and what of the request has no effect. */
export function minimalJob({ id, state, body }: Job, isExisting = false): Json {
  return objectOf({
    id: `"${id}"`,
    state: `"${state}"`,
    deduplicated: isExisting ? 'true' : undefined,
    x_warnings: body.includes('"x_warnings"') ? textOfMember(`{${body}}`, 'x_warnings') : undefined,
  })
}
