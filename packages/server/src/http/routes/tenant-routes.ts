/**
 * Tenants at the door: what one of them has, and that a call which speaks for one does not see the jobs of others. It is
 * a filter for callers that use it, not access control: a call without the header sees everything.
 */
import { JOB_STATES, notFound, TENANT_SHAPE } from '@curfew/core'
import { param, tenantOf, type Call, type Route } from '../api/route.ts'

export const TENANT_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/admin/tenants/:id/stats',
    tag: 'admin',
    summary: 'How many jobs a tenant has, by state',
    handle: async (call) => {
      const tenant = TENANT_SHAPE.read(param(call, 'id'), 'id')
      const jobs = await call.engine.read((reads) => reads.tenantCounts(tenant))
      const total = JOB_STATES.reduce((sum, state) => sum + jobs[state], 0)
      return { body: JSON.stringify({ tenant_id: tenant, total_jobs: total, jobs, ...jobs }) }
    },
  },
]

/** Paths that are about one job. */
const ABOUT_A_JOB = /\/(?:jobs|dead-letter|checkpoints)\/:id(?:\/|$)/

export const isAboutAJob = ({ path }: Pick<Route, 'path'>): boolean => ABOUT_A_JOB.test(path)

/** A job's tenant never changes, so it can be looked at before anything is decided. One that is not there is answered as ever. */
export async function refuseOthersJob(call: Call): Promise<void> {
  const [tenant, id] = [tenantOf(call), call.params['id']]
  if (tenant !== null && id !== undefined && !(await isOwn(call, tenant, id))) throw notFound('job', id)
}

export async function isOwn(call: Call, tenant: string, id: string): Promise<boolean> {
  const job = await call.engine.read((reads) => reads.job(id))
  return job === null || job.tenant === tenant
}
