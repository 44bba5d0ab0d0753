/** Waiting jobs of a tenant that have a deadline, by priority and then the nearest first. */
export const tenantsByDeadline = `
CREATE INDEX jobs_tenant_deadline ON jobs (queue, tenant, priority DESC, wake_at, seq)
  WHERE state = 'available' AND tenant IS NOT NULL AND wake_at IS NOT NULL;
`
