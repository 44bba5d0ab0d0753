/** Whose jobs they are: found by tenant, in a queue's order and by state. Jobs without a tenant cost nothing in it. */
export const tenants = `
CREATE INDEX jobs_tenant_claim ON jobs (queue, tenant, priority DESC, seq) WHERE state = 'available' AND tenant IS NOT NULL;
CREATE INDEX jobs_tenant ON jobs (tenant, state, id) WHERE tenant IS NOT NULL;
`
