/**
 * Near misses: unknown names that were most likely meant to be known ones. `totalTimeout`, `timeout_seconds` or `grace`
 * in an enqueue would otherwise be kept as fields of its sender's own, and the limit would not hold. A name that is far
 * from every known one is left alone: the Open Job Spec lets senders add fields (ADR 0046).
 *
 * A name is near when it is a known one in another spelling (camelCase, kebab-case, words in another order), a known one
 * with a unit (`timeout_seconds`), the name of the same thing in another system (aliases.ts), or one or two slips away
 * (slips.ts). near-miss-words.ts says what is answered.
 *
 * Only unknown names are looked up, so a request without any costs nothing.
 */
import { slipsAllowed, slipsBetween } from './slips.ts'

export interface NearMiss {
  /** The unknown field, with its path. */
  readonly field: string
  /** The known name that was most likely meant. */
  readonly nearest: string
  /** The field is known, but `nearest` says something else and counts. */
  readonly isOutweighed?: true
}

export const NO_NEAR_MISSES: readonly NearMiss[] = []

/** Known names, prepared for lookups. */
export interface Vocabulary {
  readonly names: readonly string[]
  /** By their letters and digits alone, the words in order of the alphabet. */
  readonly bySpelling: ReadonlyMap<string, string>
  /** Those in which slips are recognised: each is compared with every unknown name. */
  readonly bySlips: readonly Spelled[]
}

interface Spelled {
  /** The known name that is meant. */
  readonly name: string
  readonly snake: string
  readonly maxSlips: number
  readonly isAlias: boolean
}

/** In a shorter name a first letter that differs makes another word of it; a shorter alias is not compared at all. */
const LONG_NAME = 8

/** `aliases`: other systems' names for what a known name means. */
export function vocabulary(names: readonly string[], aliases: Readonly<Record<string, string>> = {}): Vocabulary {
  const bySpelling = new Map<string, string>()
  const put = (word: string, name: string): void => {
    for (const spelling of spellingsOf(word)) if (!bySpelling.has(spelling)) bySpelling.set(spelling, name)
  }
  for (const name of names) put(name, name)
  for (const [alias, name] of Object.entries(aliases)) put(alias, name)
  const spelled = names.map((name): Spelled => {
    const snake = snakeOf(name)
    return { name, snake, maxSlips: slipsAllowed(snake), isAlias: false }
  })
  for (const [alias, name] of Object.entries(aliases)) {
    const snake = snakeOf(alias)
    if (snake.length >= LONG_NAME) spelled.push({ name, snake, maxSlips: 1, isAlias: true })
  }
  return { names, bySpelling, bySlips: spelled.filter(({ maxSlips }) => maxSlips > 0) }
}

/** So many unknown names of one object are searched for slips: each is compared with all known names. */
const MAX_SLIP_SEARCHES = 50
/** Longer names are not looked up. */
const MAX_NAME_LENGTH = 64

/**
 * Of `unknown` names, those that are near a known one. `prefix`: where they lie. Other spellings and aliases are found
 * wherever they stand; only the search for slips has a bound.
 */
export function nearMissesAmong(unknown: readonly string[], known: Vocabulary, prefix = ''): readonly NearMiss[] {
  if (unknown.length === 0) return NO_NEAR_MISSES
  const found: NearMiss[] = []
  let searches = 0
  for (const name of unknown) {
    if (name.length > MAX_NAME_LENGTH) continue
    const snake = snakeOf(name)
    let nearest = inOtherWords(snake, known)
    if (nearest === undefined) {
      nearest = searches < MAX_SLIP_SEARCHES ? bySlips(snake, known.bySlips) : null
      searches += 1
    }
    if (nearest !== null) found.push({ field: `${prefix}${name}`, nearest })
  }
  return found
}

export function nearestName(word: string, known: Vocabulary): string | null {
  if (word.length > MAX_NAME_LENGTH) return null
  const snake = snakeOf(word)
  const nearest = inOtherWords(snake, known)
  return nearest === undefined ? bySlips(snake, known.bySlips) : nearest
}

/** The known name by its spelling, an alias or a unit. Null: the name is free; undefined: it may still hold slips. */
function inOtherWords(snake: string, known: Vocabulary): string | null | undefined {
  // Names that begin with x_ are free for applications: only one that is a slip away from ours was meant to be ours.
  const isExtension = isExtensionName(snake)
  const spelled = bySpelling(snake, known) ?? (isExtension ? null : withoutUnit(snake, known))
  if (spelled === null) return undefined
  return isExtension && !isExtensionName(spelled) ? null : spelled
}

/** Wherever the name lies: `options.x_on_timeout` is one. */
const isExtensionName = (name: string): boolean => /(?:^|\.)x_/.test(name)

function bySpelling(snake: string, { bySpelling: known }: Vocabulary): string | null {
  for (const spelling of spellingsOf(snake)) {
    const name = known.get(spelling)
    if (name !== undefined) return name
  }
  return null
}

const MILLIS = /_(?:in_)?(?:ms|msecs?|millis|milliseconds?)$/
const UNITS = /_(?:in_)?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|iso)$/

/** `timeout_seconds` is `timeout`, `ttl_millis` is `enqueue_ttl_ms`. */
function withoutUnit(snake: string, known: Vocabulary): string | null {
  for (const [unit, suffix] of [
    [MILLIS, '_ms'],
    [UNITS, ''],
  ] as const) {
    const base = unit.test(snake) ? bySpelling(snake.replace(unit, ''), known) : null
    if (base !== null) return known.names.includes(`${base}${suffix}`) ? `${base}${suffix}` : base
  }
  return null
}

/** `totalTimeout`, `total-timeout` and `TOTAL_TIMEOUT` are `total_timeout`. */
const snakeOf = (word: string): string =>
  word
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')

/** As it is written, without what separates words; and with the words in order of the alphabet. */
function spellingsOf(word: string): readonly [string, string] {
  const words = snakeOf(word).split('_')
  return [words.join(''), words.toSorted().join(' ')]
}

function bySlips(word: string, names: readonly Spelled[]): string | null {
  const isExtension = isExtensionName(word)
  let [nearest, fewest]: [string | null, number] = [null, Infinity]
  for (const { name, snake, maxSlips, isAlias } of names) {
    if (isExtension && !isExtensionName(name)) continue
    // With another first letter a short name is another word (beta, meta), and so is an alias (headline, deadline).
    if ((isAlias || snake.length < LONG_NAME) && snake[0] !== word[0]) continue
    // executed_at tells of the past, execute_at asks for something.
    if (isAlias && PAST_TENSE.test(word) && !PAST_TENSE.test(snake)) continue
    const slips = slipsBetween(word, snake, maxSlips)
    if (slips < fewest) [nearest, fewest] = [name, slips]
  }
  return nearest
}

const PAST_TENSE = /ed(?:_|$)/

/** The same misses, seen from further up. */
export const missesWithin = (prefix: string, misses: readonly NearMiss[]): readonly NearMiss[] =>
  misses.length === 0 ? misses : misses.map((miss) => ({ ...miss, field: `${prefix}${miss.field}` }))
