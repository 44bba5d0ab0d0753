/** The server itself, tenants, and the form of a refusal, field by field as the server writes them. */
import type { JobState } from './jobs.ts'

/** What a server says about itself. */
export interface Manifest {
  readonly specversion?: string
  readonly implementation?: { readonly name: string; readonly version?: string; readonly [field: string]: unknown }
  readonly conformance_level?: number
  readonly extensions: readonly string[]
  readonly capabilities: Readonly<Record<string, boolean>>
  readonly [field: string]: unknown
}

/** Totals of queues, jobs and workers. */
export interface StatsView {
  readonly queues: number
  readonly workers: number
  readonly jobs: Readonly<Record<JobState, number>>
  readonly uptime_seconds: number
  readonly [field: string]: unknown
}

export interface HealthView {
  readonly status: string
  readonly server_time?: string
  readonly uptime_seconds?: number
  readonly backend?: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

/** How many jobs a tenant has, by state. */
export interface TenantStats {
  readonly tenant_id: string
  readonly total_jobs: number
  readonly jobs: Readonly<Record<JobState, number>>
  readonly [field: string]: unknown
}

export interface ErrorBody {
  readonly error?: {
    readonly code?: string
    readonly message?: string
    readonly retryable?: boolean
    readonly details?: Readonly<Record<string, unknown>>
    readonly hint?: string
    readonly request_id?: string
  }
}
