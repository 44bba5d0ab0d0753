/**
 * The calendar: which walls fit the fields of a schedule. The searching is croner's (docs/adr/0028); it is asked in UTC
 * only, so that it knows no zones, no clock and no timers, and it is given nothing that `readSchedule` has not read.
 */
import { Cron } from 'croner'
import type { Calendar } from '@curfew/core'

type Find = (wall: number) => number | null

/** Reading an expression costs more than searching with it. */
const MAX_KEPT = 1_000
const kept = new Map<string, Find>()

export const calendar: Calendar = (fields) => {
  const found = kept.get(fields)
  if (found !== undefined) return found
  const pattern = new Cron(fields, { mode: '6-part', utcOffset: 0, paused: true })
  const find: Find = (wall) => pattern.nextRun(new Date(wall))?.getTime() ?? null
  if (kept.size >= MAX_KEPT) kept.clear()
  kept.set(fields, find)
  return find
}
