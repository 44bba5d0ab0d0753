/** UUIDv7: time-ordered ids, from an instant and handed-in chance. */
import type { Instant, Random } from './time/clock.ts'

export const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Lower case only: OJS refuses upper case and other UUID versions. */
export function isUuidV7(text: string): boolean {
  return UUID_V7.test(text)
}

export function uuidV7(now: Instant, random: Random): string {
  const high = Math.floor(random() * 0x1000)
  const middle = Math.floor(random() * 0x4000)
  const low = Math.floor(random() * 0x1_0000_0000)
  const lower = Math.floor(random() * 0x1_0000)
  return format(now, high, middle, lower * 0x1_0000_0000 + low)
}

/**
 * An event's id is made of its time and its place in the log, in the form of a UUIDv7: readers may treat it as opaque,
 * and the server finds the place again without an index.
 */
export function eventId(at: Instant, sequence: number): string {
  return `evt_${format(at, 0xe7e, 0x27e7, sequence)}`
}

export function sequenceOfEventId(id: string): { at: number; sequence: number } | null {
  if (!id.startsWith('evt_') || !isUuidV7(id.slice(4))) return null
  const digits = id.slice(4).replaceAll('-', '')
  return { at: parseInt(digits.slice(0, 12), 16), sequence: parseInt(digits.slice(20), 16) }
}

/** Where an id is put together: as one string of its units it is made at once, without all its beginnings. */
const units = Array.from({ length: 36 }, () => '-'.charCodeAt(0))
const DIGITS = Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))

function format(ms: number, high12: number, middle14: number, low48: number): string {
  writeHex(Math.floor(ms / 0x1_0000), 0, 8)
  writeHex(ms % 0x1_0000, 9, 13)
  writeHex(0x7000 | high12, 14, 18)
  writeHex(0x8000 | middle14, 19, 23)
  writeHex(Math.floor(low48 / 0x1_0000_0000), 24, 28)
  writeHex(low48 % 0x1_0000_0000, 28, 36)
  return String.fromCharCode(...units)
}

/** Writes the lowest 32 bits of a number, last digit first. */
function writeHex(value: number, from: number, to: number): void {
  let rest = value
  for (let at = to - 1; at >= from; at -= 1) {
    units[at] = DIGITS[rest & 0xf] ?? 0
    rest >>>= 4
  }
}
