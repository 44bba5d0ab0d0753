/**
 * Tenants: whose job it is. A label on the job (`meta.tenant_id`) and a filter on calls that carry the header
 * `X-OJS-Tenant` (OJS multi-tenancy §5, shared queues with tenant tags). It does not protect anything: every
 * client that may call the server may name any tenant, or none.
 */
import { badField } from '../errors.ts'
import { text } from './shape.ts'

export const TENANT_HEADER = 'X-OJS-Tenant'

const FORM = /^[a-zA-Z0-9][a-zA-Z0-9._:-]*$/
const MAX_LENGTH = 255

export const TENANT_SHAPE = text({
  pattern: FORM,
  maxLength: MAX_LENGTH,
  expected: 'the id of a tenant: letters, digits, ".", "_", ":" and "-", beginning with a letter or digit, at most 255',
})

/** The tenant a call speaks for; null: for none, and all jobs are meant. */
export function readTenantHeader(value: string | undefined): string | null {
  return value === undefined ? null : TENANT_SHAPE.read(value, TENANT_HEADER)
}

/**
 * Whose job it will be. Without a header, a `meta.tenant_id` that has the form of a tenant's id is one; anything else
 * under that name is left to the application.
 */
export function tenantOf(header: string | null, inMeta: unknown): string | null {
  if (header === null) {
    return typeof inMeta === 'string' && inMeta.length <= MAX_LENGTH && FORM.test(inMeta) ? inMeta : null
  }
  if (inMeta !== undefined && inMeta !== null && inMeta !== header) {
    throw badField(
      'meta.tenant_id',
      `meta.tenant_id differs from the header ${TENANT_HEADER} (${header}); send one of them.`,
    )
  }
  return header
}
