/** `state:discarded error:timeout since:-1h`: the words of a filter, as the API names them. */
import {
  before,
  didYouMean,
  instant,
  iso,
  nearestName,
  parseDuration,
  parseMoment,
  vocabulary,
  type Instant,
} from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import type { Remote } from '../frame/remote.ts'

/** Short words for people; the names of the API count too. */
const WORDS: Readonly<Record<string, string>> = {
  state: 'state',
  type: 'type',
  queue: 'queue',
  error: 'error_type',
  kind: 'timeout_kind',
  tag: 'tag',
  worker: 'worker',
  priority: 'priority',
  since: 'since',
  until: 'until',
}
/** Only the search knows these. */
const SEARCH_WORDS: Readonly<Record<string, string>> = { ...WORDS, source: 'source', id: 'id_prefix' }
const TIMES = ['created', 'ended', 'enqueued'].flatMap((what) => [`${what}_after`, `${what}_before`])

/** For the message about `--state active`. */
export const FILTER_WORDS: readonly string[] = Object.keys(WORDS)

export const FILTER_HELP: readonly string[] = [
  'FILTER is a word such as state:discarded; all that are given must hold:',
  '  state:S[,S]  type:T  queue:Q  tag:T  worker:W  priority:N  error:TYPE',
  '  kind:execution|total|enqueue_ttl|stalled  since:-1h|TIME  until:TIME',
  '  ended_after:-1h|TIME  and the same with created_, enqueued_ and _before',
]

export type Filter = Readonly<Record<string, string>>

export async function readFilter(server: Remote, words: readonly string[], isSearch: boolean): Promise<Filter> {
  const known = isSearch ? SEARCH_WORDS : WORDS
  const names = [...new Set([...Object.keys(known), ...Object.values(known), ...TIMES])]
  const filter: Record<string, string> = {}
  for (const word of words) {
    const colon = word.indexOf(':')
    const name = word.slice(0, Math.max(0, colon))
    const value = word.slice(colon + 1)
    if (colon < 1 || value === '')
      throw new SettingsError(`${JSON.stringify(word)} is not a filter. Write NAME:VALUE, such as type:${word || 'x'}.`)
    if (!names.includes(name)) {
      const nearest = nearestName(name, vocabulary(names))
      const meant = nearest === null ? `Filters are ${Object.keys(known).join(', ')}.` : didYouMean(nearest)
      throw new SettingsError(`Unknown filter ${JSON.stringify(name)}. ${meant}`)
    }
    const field = known[name] ?? name
    filter[field] = isTime(field) && value.startsWith('-') ? iso(await momentOf(server, value, name)) : value
  }
  return filter
}

const isTime = (field: string): boolean => field === 'since' || field === 'until' || TIMES.includes(field)

/** A time, or a length counted back on the clock of the server, which made the times that are compared. */
export async function momentOf(server: Remote, text: string, name: string): Promise<Instant> {
  const agoMs = text.startsWith('-') ? parseDuration(text.slice(1)) : null
  if (agoMs !== null) return before(await serverTime(server), agoMs)
  const named = text.startsWith('+') ? null : parseMoment(text, instant(0), false)
  if (named === null) throw new SettingsError(`${name} must be a time or a length before now such as -1h, not ${text}.`)
  return named.at
}

export async function serverTime(server: Remote): Promise<Instant> {
  const { server_time: now } = (await server.call('GET', '/ojs/v1/health')) as { server_time: string }
  return instant(Date.parse(now))
}

/** As bulk actions take it. */
export function bodyOf(filter: Filter): Record<string, unknown> {
  return {
    ...filter,
    ...(filter['state'] === undefined ? {} : { state: filter['state'].split(',') }),
    ...(filter['priority'] === undefined ? {} : { priority: Number(filter['priority']) }),
  }
}

export function queryText(fields: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value))
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}
