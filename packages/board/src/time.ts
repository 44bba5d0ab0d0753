/** The clock of the server as this page knows it, ticks for what is drawn, and lengths and instants in words. */
import { signal } from '@preact/signals'
import { timeBetween, instant, type Instant, type Millis } from '@curfew/core'

export const monotonicMs = (): number => performance.now()

/** What to add to the page's own clock; never the clock of the machine, which may be wrong and may be set. */
let offsetMs: number | null = null
let errorMs = Infinity

/** `withinMs`: how exactly the instant was told. A more exact one is kept until it is contradicted. */
export function learnServerTime(at: number, withinMs: number): void {
  const told = at - monotonicMs()
  // What was told in whole seconds lies up to a second back.
  const middle = told + withinMs / 2
  if (offsetMs !== null && errorMs <= withinMs && Math.abs(middle - offsetMs) <= errorMs + withinMs) return
  offsetMs = middle
  errorMs = withinMs
}

export const serverNow = (): Instant => instant(offsetMs === null ? 0 : offsetMs + monotonicMs())

const calm = window.matchMedia('(prefers-reduced-motion: reduce)')

/** Now on the server's clock: four steps a second, one for people who asked for less motion. */
export const now = signal<Instant>(instant(0))

export function startClock(): void {
  const tick = (): void => {
    if (!document.hidden) now.value = serverNow()
    setTimeout(tick, calm.matches ? 1_000 : 250)
  }
  tick()
}

// ---- Words ----

/** Three figures at most and one unit: `1.2 s`, `4 min`, `23 h`. */
export function length(ms: number): string {
  const size = Math.abs(ms)
  const sign = ms < 0 ? '−' : ''
  if (size < 1_000) return `${sign}${String(Math.round(size))} ms`
  if (size < 120_000) return `${sign}${figures(size / 1_000)} s`
  if (size < 7_200_000) return `${sign}${figures(size / 60_000)} min`
  if (size < 172_800_000) return `${sign}${figures(size / 3_600_000)} h`
  return `${sign}${figures(size / 86_400_000)} d`
}

/** Like `length`, but of a clock that runs: no part of a second below a tenth, so that it does not flicker. */
export function running(ms: number): string {
  const size = Math.max(0, ms)
  return size < 1_000 ? `${(size / 1_000).toFixed(1)} s` : length(size)
}

const figures = (size: number): string => (size >= 10 ? String(Math.round(size)) : String(Math.round(size * 10) / 10))

const pad = (value: number, width = 2): string => String(value).padStart(width, '0')

const STORED = 'curfew-times'

/** Whether instants are shown in UTC instead of the visitor's zone; kept by the browser. */
export const isUtc = signal(localStorage.getItem(STORED) === 'utc')

export function showUtc(value: boolean): void {
  isUtc.value = value
  localStorage.setItem(STORED, value ? 'utc' : 'local')
}

/** Its day and its time of day, as they are shown. */
function partsOfTime(at: number | string): readonly [day: string, time: string] {
  const date = new Date(at)
  if (isUtc.value) {
    const text = date.toISOString()
    return [text.slice(0, 10), `${text.slice(11, 19)}Z`]
  }
  const day = `${String(date.getFullYear())}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`
  return [day, `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`]
}

/** `03:12:27`, with the day in front of it where that is not today. `03:12:27Z` in UTC. */
export function clockTime(at: number | string | null | undefined): string {
  if (at === null || at === undefined) return ''
  const [day, time] = partsOfTime(at)
  return day === partsOfTime(serverNow())[0] ? time : `${day} ${time}`
}

/** The time of day alone. */
export const timeOfDay = (at: number): string => partsOfTime(at)[1]

/** An instant as the server writes it. */
export const instantAt = (at: string): Instant => instant(Date.parse(at))

export const instantOf = (at: string | null | undefined): Instant | null =>
  at === null || at === undefined ? null : instantAt(at)

/** How long until then, while one looks; negative once it has passed. */
export const untilMs = (at: Instant): Millis => timeBetween(now.value, at)

/** `2 min ago`, `in 4 s`. */
export function relative(at: Instant, from: Instant): string {
  const ms = timeBetween(from, at)
  if (Math.abs(ms) < 1_000) return 'now'
  return ms > 0 ? `in ${length(ms)}` : `${length(Math.abs(ms))} ago`
}
