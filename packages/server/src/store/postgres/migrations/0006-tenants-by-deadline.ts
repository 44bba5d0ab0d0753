/** Waiting jobs of a tenant by priority: nearest deadline first, and then those that have none. */
import type { Migration } from './migrate.ts'

export const tenantsByDeadline: Migration = {
  name: '0006-tenants-by-deadline',
  kind: 'expand',
  sql: `
CREATE INDEX jobs_tenant_deadline ON jobs (queue, tenant, priority DESC, wake_at, seq)
  WHERE state = 'available' AND tenant IS NOT NULL;
`,
}
