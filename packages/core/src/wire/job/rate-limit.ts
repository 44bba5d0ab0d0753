/**
 * `rate_limit` on the wire (OJS rate limiting §6): the limiter a job asks for, and what shall become of the job when that
 * turns it away. Also the limits an operator sets for a whole queue.
 *
 *   {"max_per_second": 5}                                     the job's queue: so many starts a second
 *   {"key": "stripe", "concurrency": 5}                       all jobs with this key: so many at once
 *   {"key": "stripe", "rate": 100, "period": "minute"}        so many starts in any minute
 *   {"key": "stripe", "rate": {"limit": 100, "period": "PT1M"}, "throttle": {…}, "on_limit": "wait"}
 *   {"key": "stripe"}                                         whatever terms that limiter has
 */
import { badPolicy } from '../../errors.ts'
import type { Fragment } from '../../job/job.ts'
import { NO_TERMS, type LimiterTerms, type Rate } from '../../job/limiter.ts'
import type { RateLimit } from '../../job/rate-limit.ts'
import { seconds, type Millis } from '../../time/clock.ts'
import { formatIsoDuration, MAX_DURATION_MS, parseIsoDuration } from '../../time/durations.ts'
import { DURATION_SCHEMA } from '../time-schemas.ts'
import {
  anyObject,
  either,
  named,
  notBoth,
  object,
  oneOf,
  policy,
  ruled,
  text,
  whole,
  type Fields,
  type JsonSchema,
  type Shape,
} from '../shape.ts'

export const LIMIT_KEY_SHAPE = text({
  // eslint-disable-next-line no-control-regex
  pattern: /^(?:[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])+$/,
  min: 1,
  maxLength: 255,
  expected: 'the name of a limiter: 1 to 255 characters of well-formed text, none of them a control character',
})

const WORDS: Readonly<Record<string, Millis>> = {
  second: seconds(1),
  minute: seconds(60),
  hour: seconds(3_600),
  day: seconds(86_400),
}
const MAX_STARTS = 1_000_000_000

const PERIOD_SHAPE: Shape<Millis> = {
  json: { anyOf: [{ type: 'string', enum: Object.keys(WORDS) }, DURATION_SCHEMA] },
  read(value, at) {
    const known = typeof value !== 'string' ? null : (ownWord(value) ?? parseIsoDuration(value))
    if (known === null || known < 1 || known > MAX_DURATION_MS)
      throw badPolicy(
        at,
        `${at} must be an ISO 8601 duration such as "PT1M", or one of ${Object.keys(WORDS).join(', ')}.`,
      )
    return known
  },
}
const ownWord = (word: string): Millis | null => (Object.hasOwn(WORDS, word) ? (WORDS[word] ?? null) : null)

const PAIR_SHAPE = object(
  { limit: whole(1, MAX_STARTS), period: PERIOD_SHAPE },
  { required: ['limit', 'period'], unknown: 'refuse' },
)
const TERMS_FIELDS = {
  concurrency: whole(0, MAX_STARTS),
  rate: either(whole(1, MAX_STARTS), PAIR_SHAPE, (value) => typeof value !== 'object'),
  period: PERIOD_SHAPE,
  max_per_second: whole(1, MAX_STARTS),
  throttle: PAIR_SHAPE,
} as const

/** What `termsOf` says about fields that need each other. */
const BETWEEN_TERMS: readonly JsonSchema[] = [
  notBoth('rate', 'max_per_second'),
  {
    anyOf: [
      { required: ['rate', 'period'], properties: { rate: { type: 'integer' }, period: { type: 'string' } } },
      { properties: { rate: { type: ['object', 'null'] }, period: { type: 'null' } } },
    ],
  },
]
/** Without a key the limiter is that of the queue, which takes only this at enqueue. */
const KEY_OR_QUEUE: JsonSchema = {
  anyOf: [
    { required: ['key'], properties: { key: { type: 'string' } } },
    {
      required: ['max_per_second'],
      properties: {
        max_per_second: { type: 'integer' },
        concurrency: { type: 'null' },
        throttle: { type: 'null' },
        on_limit: { type: 'null' },
      },
    },
  ],
}

/** At enqueue. */
export const RATE_LIMIT_SHAPE = named(
  'RateLimit',
  ruled(
    policy(
      object(
        { key: LIMIT_KEY_SHAPE, ...TERMS_FIELDS, on_limit: oneOf('wait', 'reschedule', 'drop') },
        { unknown: 'refuse' },
      ),
    ),
    { allOf: [...BETWEEN_TERMS, KEY_OR_QUEUE] },
  ),
)
const TERMS_SHAPE = ruled(policy(object(TERMS_FIELDS, { unknown: 'refuse' })), { allOf: BETWEEN_TERMS })
type TermsRead = Partial<ReturnType<typeof TERMS_SHAPE.read>>

/** For a queue: the terms of its limiter. */
export const QUEUE_RATE_LIMIT_SHAPE: Shape<LimiterTerms> = {
  json: TERMS_SHAPE.json,
  read: (value, at) => termsOf(TERMS_SHAPE.read(value, at), at) ?? NO_TERMS,
}

export function readRateLimit(value: unknown, at = 'rate_limit'): RateLimit {
  const read = RATE_LIMIT_SHAPE.read(value, at)
  const terms = termsOf(read, at)
  const isNamed = read.key !== undefined
  if (!isNamed) {
    if (read.max_per_second === undefined)
      throw badPolicy(
        `${at}.key`,
        `${at}.key is required: jobs with the same key share a limiter. (Without one, max_per_second limits the queue.)`,
      )
    const alone = terms?.concurrency == null && terms?.throttle == null && read.on_limit === undefined
    if (!alone)
      throw badPolicy(
        at,
        `Without a key, ${at} may only hold max_per_second, which limits the queue. Give it a key, or configure the queue.`,
      )
  }
  return { key: read.key ?? null, terms, onLimit: read.on_limit ?? 'wait' }
}

function termsOf(read: TermsRead, at: string): LimiterTerms | null {
  const { rate, period, max_per_second: perSecond } = read
  if (perSecond !== undefined && rate !== undefined)
    throw badPolicy(`${at}.max_per_second`, `${at} holds both rate and max_per_second; they are the same limit.`)
  if (typeof rate === 'number' && period === undefined)
    throw badPolicy(
      `${at}.period`,
      `${at}.rate needs a period: "second", "minute", "hour", "day" or an ISO 8601 duration.`,
    )
  if (typeof rate !== 'number' && period !== undefined)
    throw badPolicy(`${at}.period`, `${at}.period belongs to a rate that is a number.`)
  const terms: LimiterTerms = {
    concurrency: read.concurrency ?? null,
    rate:
      perSecond !== undefined
        ? { limit: perSecond, periodMs: seconds(1) }
        : typeof rate === 'number'
          ? { limit: rate, periodMs: period ?? seconds(1) }
          : rateOf(rate),
    throttle: rateOf(read.throttle),
  }
  return terms.concurrency === null && terms.rate === null && terms.throttle === null ? null : terms
}

const rateOf = (read: { readonly limit: number; readonly period: Millis } | undefined): Rate | null =>
  read === undefined ? null : { limit: read.limit, periodMs: read.period }

/** As it can be read again. */
export function writeTerms({ concurrency, rate, throttle }: LimiterTerms): Fields {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rate === null ? {} : { rate: writeRate(rate) }),
    ...(throttle === null ? {} : { throttle: writeRate(throttle) }),
  }
}

export const writeRate = ({ limit, periodMs }: Rate): Fields => ({ limit, period: formatIsoDuration(periodMs) })

/** What a stored job asked for, from what it was given. */
export function givenRateLimit(given: Fragment): RateLimit | null {
  if (!given.includes('"rate_limit":')) return null
  const { rate_limit: asked } = JSON.parse(`{${given}}`) as Fields
  return asked === undefined ? null : readRateLimit(anyObject().read(asked, 'rate_limit'))
}
