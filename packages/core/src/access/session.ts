/** Sessions of people who signed in with a token. */
import { hours, type Instant } from '../time/clock.ts'
import { after } from '../time/sums.ts'

const SESSION_MS = hours(12)

/** A session ends at the latest when the secret ends with which it began. */
export function sessionEndsAt(now: Instant, secretEndsAt: Instant | null): Instant {
  const own = after(now, SESSION_MS)
  return secretEndsAt !== null && secretEndsAt < own ? secretEndsAt : own
}
