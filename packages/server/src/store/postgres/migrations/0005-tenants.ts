/** Whose jobs they are: found by tenant and state. Jobs without a tenant cost nothing in it. */
import type { Migration } from './migrate.ts'

export const tenants: Migration = {
  name: '0005-tenants',
  kind: 'expand',
  sql: `
CREATE INDEX jobs_of_tenant ON jobs (tenant, state, id) WHERE tenant IS NOT NULL;
`,
}
