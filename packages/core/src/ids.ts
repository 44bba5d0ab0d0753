/** UUIDv7: time-ordered ids, from an instant and handed-in chance. */
import type { Instant, Random } from './clock.ts'

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

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

function format(ms: number, high12: number, middle14: number, low48: number): string {
  const [timeHigh, timeLow] = [Math.floor(ms / 0x1_0000), ms % 0x1_0000]
  return (
    `${fourBytes(timeHigh)}-${twoBytes(timeLow)}-${twoBytes(0x7000 | high12)}-${twoBytes(0x8000 | middle14)}-` +
    `${twoBytes(Math.floor(low48 / 0x1_0000_0000))}${fourBytes(low48 % 0x1_0000_0000)}`
  )
}

const twoBytes = (value: number): string => `${HEX[(value >> 8) & 0xff] ?? ''}${HEX[value & 0xff] ?? ''}`
const fourBytes = (value: number): string => `${twoBytes(Math.floor(value / 0x1_0000))}${twoBytes(value % 0x1_0000)}`
