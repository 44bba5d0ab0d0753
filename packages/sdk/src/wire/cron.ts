/** Cron entries, field by field as the server writes them. */

/** A cron entry: its schedule, its job, and how far it has come. */
export interface CronView {
  readonly name: string
  readonly expression?: string
  readonly cron?: string
  readonly timezone: string
  readonly overlap_policy: string
  readonly enabled: boolean
  readonly description?: string | null
  readonly type: string
  readonly args: readonly unknown[]
  readonly next_run_at: string | null
  readonly last_run_at: string | null
  readonly run_count: number
  readonly created_at: string
  readonly [field: string]: unknown
}
