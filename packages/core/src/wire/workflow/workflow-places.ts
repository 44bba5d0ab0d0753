/** Places within a workflow: refusals name them by path. */
import { badField, OjsError } from '../../errors.ts'
import { isGiven } from '../is-given.ts'
import type { Fields } from '../shape.ts'

export function inStep(error: OjsError, at: string): OjsError {
  const { field } = error.details
  const where = typeof field === 'string' && field !== '' ? under(at, field) : at
  return new OjsError(error.code, `${at}: ${error.message}`, {
    details: { ...error.details, field: where, validation_errors: [{ path: `$.${where}`, message: error.message }] },
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  })
}

export function bad(field: string, message: string, more: Record<string, unknown> = {}): OjsError {
  const { code, details } = badField(field, message)
  const path = field === '' ? '$' : `$.${field}`
  return new OjsError(code, message, { details: { ...details, ...more, validation_errors: [{ path, message }] } })
}

export const under = (at: string, key: string): string => (at === '' ? key : `${at}.${key}`)

export function optionsIn(fields: Fields): Fields {
  const { options } = fields
  return typeof options === 'object' && options !== null && !Array.isArray(options) ? (options as Fields) : {}
}

export function isBranch(node: unknown): node is Fields {
  return (
    typeof node === 'object' &&
    node !== null &&
    !Array.isArray(node) &&
    (isGiven((node as Fields)['steps']) || isGiven((node as Fields)['jobs']))
  )
}
