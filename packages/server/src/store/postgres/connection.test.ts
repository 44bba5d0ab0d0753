import { describe, expect, test } from 'vitest'
import { DatabaseError } from 'pg'
import { StoreDamaged, StoreUnavailable } from '../store.ts'
import { told } from './connection.ts'

function databaseError(code: string): DatabaseError {
  return Object.assign(new DatabaseError('could not read block 7 in file "base/1/2"', 0, 'error'), { code })
}

describe('an error of the database', () => {
  test.each([
    ['data_corrupted', 'XX001'],
    ['index_corrupted', 'XX002'],
  ])('%s means damage, with advice and the cause', (_, code) => {
    const cause = databaseError(code)
    const error = told(cause)
    expect(error).toBeInstanceOf(StoreDamaged)
    expect(error).toMatchObject({ reason: 'the database reports damaged data', cause })
    expect((error as StoreDamaged).advice).toContainEqual(expect.stringContaining('pg_amcheck'))
  })

  test.each(['58030', '53100', '57P03'])('%s passes by itself and is not damage', (code) => {
    const error = told(databaseError(code))
    expect(error).toBeInstanceOf(StoreUnavailable)
    expect(error).not.toBeInstanceOf(StoreDamaged)
  })

  test('internal_error (XX000) is neither: it stays as it is', () => {
    const error = databaseError('XX000')
    expect(told(error)).toBe(error)
  })
})
