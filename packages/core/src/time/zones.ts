/**
 * Time zones: what a wall clock in a place shows, and when that changes. The rules are those of the IANA database that
 * comes with the runtime (`Intl`).
 *
 * A wall is what a clock on the wall shows, written as the number of milliseconds that UTC would need to show the same.
 * It is not an instant: in spring some walls never come, in autumn some come twice.
 */

export interface Zone {
  readonly name: string
  /** What the clocks there are ahead of UTC at this instant, in milliseconds. */
  offsetAt(at: number): number
}

export const UTC: Zone = { name: 'UTC', offsetAt: () => 0 }

/** An area and a place. `EST`, `GMT` or `Japan` are in the database too, but do not say which rules hold there. */
const NAME = /^[a-z][a-z_-]*(?:\/[a-z0-9_+-]+)+$/i
/** Only names that are known get in, so it cannot grow beyond their number. */
const known = new Map<string, Zone>([['utc', UTC]])

/** Null when the database has no such zone, or the name is an offset or an abbreviation. */
export function zoneNamed(name: string): Zone | null {
  const key = name.toLowerCase()
  const found = known.get(key)
  if (found !== undefined) return found
  if (!NAME.test(name)) return null
  const zone = lookUp(name)
  if (zone !== null) known.set(key, zone)
  return zone
}

function lookUp(name: string): Zone | null {
  let clock: Intl.DateTimeFormat
  try {
    clock = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  } catch {
    return null
  }
  return {
    name,
    offsetAt: (at) => {
      const [month = 1, day = 1, year = 1970, hour = 0, minute = 0, second = 0] =
        clock.format(at).match(/\d+/g)?.map(Number) ?? []
      return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1000) * 1000
    },
  }
}

/** The first instant after `from` at which the offset is another one; at `to` it is, and up to `from` it is not. */
export function shiftBetween(zone: Zone, offset: number, from: number, to: number): number {
  let [same, other] = [Math.floor(from / 1000), Math.ceil(to / 1000)]
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2)
    if (zone.offsetAt(middle * 1000) === offset) same = middle
    else other = middle
  }
  return other * 1000
}
