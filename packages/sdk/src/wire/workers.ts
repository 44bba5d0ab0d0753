/** Workers, field by field as the server writes them. */

export interface WorkerView {
  readonly worker_id: string
  readonly state: string
  readonly directive: string | null
  readonly queues: readonly string[]
  readonly active_jobs: number
  readonly last_heartbeat_at: string | null
  readonly [field: string]: unknown
}

export interface WorkerHealthView {
  readonly worker_id: string
  readonly state: string
  readonly healthy: boolean
  readonly active_jobs: number
  readonly [field: string]: unknown
}

/** What was told to a worker; it hears it with its next beat. */
export interface DirectiveView {
  readonly worker_id: string
  readonly directive: string
  readonly state: string
}
