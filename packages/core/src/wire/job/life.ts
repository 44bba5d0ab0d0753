/** A job's recorded life as the text that is kept on its row. */
import type { Fragment, Job, JobState } from '../../job/job.ts'
import { KEPT_ENTRIES, type LifeEntry } from '../../job/life.ts'
import type { Instant } from '../../time/clock.ts'

/** The first entry. Every job has one, and as plain text it costs a quarter. */
export function beginLife(at: Instant, to: JobState): Fragment {
  return `{"at":${String(at)},"to":"${to}"}`
}

export function appendLife(life: Fragment, entry: LifeEntry): Fragment {
  const text = JSON.stringify(entry)
  if (life === '') return text
  const joined = `${life},${text}`
  if (joined.length < 20_000) return joined
  const entries = JSON.parse(`[${joined}]`) as LifeEntry[]
  if (entries.length <= KEPT_ENTRIES) return joined
  return [entries[0], ...entries.slice(-KEPT_ENTRIES + 1)].map((kept) => JSON.stringify(kept)).join(',')
}

export function readLife(job: Pick<Job, 'life'>): LifeEntry[] {
  return JSON.parse(`[${job.life}]`) as LifeEntry[]
}
