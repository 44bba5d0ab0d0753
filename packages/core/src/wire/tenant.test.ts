import { describe, expect, test } from 'vitest'
import { drained, NOON } from '../builders.suite.ts'
import { readBatch } from './job/enqueue-many.ts'
import { readEnqueue, type EnqueueRequest } from './job/enqueue.ts'
import { readTenantHeader, tenantOf } from './tenant.ts'

function enqueue(body: object, tenant: string | null): EnqueueRequest {
  const source = JSON.stringify({ type: 'a', args: [], ...body })
  return readEnqueue(source, JSON.parse(source), NOON, tenant)
}
const metaOf = ({ body }: EnqueueRequest): unknown => (JSON.parse(`{${body}}`) as { meta: unknown }).meta

describe('the header', () => {
  test.each(['acme', 'acme-corp', 'tenant:acme.eu_1', '7', 'A'.repeat(255)])('%s names a tenant', (value) => {
    expect(readTenantHeader(value)).toBe(value)
  })

  test.each(['', ' ', '-acme', 'a b', 'a,b', 'a/b', 'é', 'A'.repeat(256)])('%j is refused', (value) => {
    expect(() => readTenantHeader(value)).toThrow(expect.objectContaining({ code: 'invalid_request' }))
  })

  test('without it a call has no tenant', () => {
    expect(readTenantHeader(undefined)).toBeNull()
  })
})

describe('at enqueue', () => {
  test('the header goes into meta, beside what is there', () => {
    expect(enqueue({}, 'acme')).toMatchObject({ tenant: 'acme', body: '"args":[],"meta":{"tenant_id":"acme"}' })
    expect(metaOf(enqueue({ meta: { a: 1 }, options: { metadata: { b: 2 } } }, 'acme'))).toEqual({
      a: 1,
      b: 2,
      tenant_id: 'acme',
    })
    expect(enqueue({ meta: { tenant_id: null } }, 'acme').body).toBe('"args":[],"meta":{"tenant_id":"acme"}')
  })

  test('meta may say the same, but not something else', () => {
    expect(enqueue({ meta: { tenant_id: 'acme' } }, 'acme').tenant).toBe('acme')
    for (const meta of [{ tenant_id: 'beta' }, { tenant_id: 7 }]) {
      expect(() => enqueue({ meta }, 'acme')).toThrow(
        expect.objectContaining({ code: 'invalid_request', details: { field: 'meta.tenant_id' } }),
      )
    }
    expect(() => enqueue({ options: { metadata: { tenant_id: 'beta' } } }, 'acme')).toThrow('differs from the header')
  })

  test('without a header, meta alone names the tenant, if it has the form of one', () => {
    expect(enqueue({ meta: { tenant_id: 'acme' } }, null).tenant).toBe('acme')
    expect(enqueue({ options: { metadata: { tenant_id: 'acme' } } }, null).tenant).toBe('acme')
    for (const tenant_id of [7, '', 'a b', null, ['acme']]) {
      expect(enqueue({ meta: { tenant_id } }, null).tenant).toBeNull()
    }
    expect(tenantOf(null, 'A'.repeat(256))).toBeNull()
  })

  test('a batch belongs to one tenant', () => {
    const source = JSON.stringify({
      jobs: [
        { type: 'a', args: [] },
        { type: 'b', args: [], meta: { x: 1 } },
      ],
    })
    expect(drained(readBatch(source, JSON.parse(source), NOON, 'acme')).entries.map(({ tenant }) => tenant)).toEqual([
      'acme',
      'acme',
    ])
  })
})
