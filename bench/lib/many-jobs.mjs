// A store with many jobs, put straight into it: what a server would have written, without the hours.
import * as core from '../../packages/core/dist/index.js'
import { NOTHING } from '../../packages/server/dist/store/store.js'

const BATCH = 2_000
/** One job was made every so many milliseconds. */
export const GAP_MS = 100

/** `began`: when the first of them was made. `live`: so many of the newest are under way as on a busy server. */
export async function fill(store, count, { began, live = 0 }) {
  const random = core.seededRandom(1)
  for (let from = 0; from < count; from += BATCH) {
    const jobs = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) =>
      jobAt(from + n, began, random, from + n >= count - live),
    )
    await store.restore({ ...NOTHING, jobs }, from + BATCH < count)
  }
}

const limitsWith = (publish) => core.settleAtEnqueue({ publish, type: null, queue: null, server: core.DEFAULT_LIMITS })
const LIMITS = limitsWith({})
const HOUR_IN_ALL = limitsWith({ total: core.hours(1) })
const WEEK_MS = 7 * 24 * 60 * 60 * 1000

/** Of a hundred jobs one waits, one is held, one has failed, one was cancelled; the others are completed. */
function jobAt(n, began, random, isLive) {
  const now = core.instant(began + n * GAP_MS)
  const retention = { completedMs: WEEK_MS, cancelledMs: WEEK_MS, discardedMs: WEEK_MS, deadLetterMs: WEEK_MS }
  const moment = { now, upAt: now, random, limits: core.DEFAULT_LIMITS, retention }
  const later = { ...moment, now: core.instant(now + 50) }
  const tags = n % 100_000 === 9 ? ['rare', 'common'] : n % 10 === 0 ? ['common'] : []
  const { job: fresh } = core.admit(
    {
      id: core.uuidV7(now, random),
      type: `t${n % 20}`,
      queue: n === 0 ? 'rare' : `q${n % 10}`,
      priority: 0,
      retry: core.DEFAULT_RETRY,
      limits: isLive ? HOUR_IN_ALL : LIMITS,
      ceiling: null,
      parent: null,
      owner: null,
      uniqueKey: null,
      limitKey: null,
      tenant: n % 20 === 0 ? 'acme' : null,
      scheduledAt: null,
      expiresAt: null,
      resultTtlMs: null,
      traceId: null,
      body: `"args":["a@example.com"]${tags.length === 0 ? '' : `,"tags":${JSON.stringify(tags)}`}`,
      given: '',
      pending: false,
    },
    moment,
  )
  const placed = { ...fresh, seq: n + 1, version: 1 }
  if (n % 100 === 1 || (isLive && n % 10 === 5)) return placed
  const claim = { workerId: `w${n % 50}`, handler: null, known: !isLive, fetchVisibilityMs: null }
  const { job: held } = core.start(placed, claim, moment)
  if (n % (isLive ? 10 : 100) === 2) return held
  if (n % 100 === 3) {
    const type = n % 100_000 === 3 ? 'rare' : 'timeout'
    return core.fail(held, { type, message: 'too long', retryable: false }, later).job
  }
  if (n % 100 === 4) return core.cancel(held, later, { reason: 'request' }).job
  return core.complete(held, '{}', later).job
}
