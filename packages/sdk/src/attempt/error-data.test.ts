import { describe, expect, test } from 'vitest'
import { errorData, errorFromData } from './error-data.ts'
import { InputError, NonRetryableError, RequestError } from '../errors.ts'

describe('errorData', () => {
  test('keeps what tells an error apart, and the causes in its stack', () => {
    const error = Object.assign(new Error('no disk', { cause: new Error('ENOSPC') }), { code: 'disk_full' })
    const data = errorData(error)
    expect(data).toMatchObject({ name: 'Error', message: 'no disk', code: 'disk_full' })
    expect(data.stack).toContain('error-data.test')
    expect(data.stack).toContain('Caused by: Error: ENOSPC')
    expect(data).not.toHaveProperty('retryable')
  })

  test('says of a NonRetryableError that it is final', () => {
    expect(errorData(new NonRetryableError('gone', { code: 'gone' }))).toMatchObject({ code: 'gone', retryable: false })
  })

  test('reads whatever else may be thrown', () => {
    expect(errorData('no')).toMatchObject({ message: 'no' })
    expect(errorData({ reason: 7 })).toMatchObject({ message: '{"reason":7}' })
    expect(errorData(undefined)).toMatchObject({ message: 'undefined' })
    const trap = new Error('x')
    Object.defineProperty(trap, 'message', {
      get() {
        throw new Error('trap')
      },
    })
    expect(errorData(trap).message).toContain('cannot even be read')
  })

  test('leaves out details that are no JSON', () => {
    const data = errorData(Object.assign(new Error('x'), { details: { big: 1n } }))
    expect(data).not.toHaveProperty('details')
  })
})

describe('errorFromData', () => {
  test('gives a refusal of the server back as what it was', () => {
    const refusal = new RequestError({
      code: 'conflict',
      message: 'The attempt is over.',
      retryable: false,
      details: { job_id: 'j' },
      hint: null,
      requestId: null,
      status: 409,
      retryAfterMs: null,
    })
    const back = errorFromData(errorData(refusal))
    expect(back).toBeInstanceOf(RequestError)
    expect(back).toMatchObject({ code: 'conflict', status: 409, details: { job_id: 'j' }, message: refusal.message })
    expect(back.stack).toBe(refusal.stack)
  })

  test('keeps the details of an input error, and the name of a stranger', () => {
    expect(errorFromData(errorData(new InputError('bad', { path: '/0' })))).toMatchObject({
      code: 'invalid_input',
      details: { path: '/0' },
    })
    expect(errorFromData({ name: 'DiskError', message: 'full' })).toMatchObject({ name: 'DiskError', message: 'full' })
  })
})
