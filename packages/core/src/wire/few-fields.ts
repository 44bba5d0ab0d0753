/**
 * Objects whose fields are all looked at, known or not. How many there may be has a bound, which is found without looking
 * at the rest: to count the names of an object of many thousands takes longer than to refuse it.
 */
import { OjsError } from '../errors.ts'
import { membersOf, type Member } from './json/json-text.ts'
import { anyObject, type Fields, type JsonSchema } from './shape.ts'

export const MAX_FIELDS = 1_000
export const FEW_FIELDS: JsonSchema = { maxProperties: MAX_FIELDS }
/** How long the text of one of these parts of a job may be, each an object with few fields. */
const MAX_PART_CHARS = 256 * 1024
const PARTS = ['options', 'retry', 'retry_policy']

/** The members of an object with few fields. `at`: where it lies. */
export function fewMembersOf(text: string, at: string): Map<string, Member> {
  const members = membersOf(text, MAX_FIELDS)
  if (members === null) throw tooMany(at)
  for (const key of PARTS) {
    const length = members.get(key)?.value.length ?? 0
    if (length > MAX_PART_CHARS)
      throw new OjsError(
        'payload_too_large',
        `${at === '' ? '' : `${at}.`}${key} must not be longer than ${String(MAX_PART_CHARS)} characters.`,
        { details: { field: at === '' ? key : `${at}.${key}` } },
      )
  }
  return members
}

/** The same for an object that was parsed, of which it is known that it is not long. */
export function fewFields(value: unknown, at: string): Fields {
  const fields = anyObject().read(value, at)
  if (Object.keys(fields).length > MAX_FIELDS) throw tooMany(at)
  return fields
}

const tooMany = (at: string): OjsError =>
  new OjsError(
    'payload_too_large',
    `${at === '' ? 'The object' : at} has more than the ${String(MAX_FIELDS)} fields that are allowed here.`,
    { details: { field: at, max_fields: MAX_FIELDS }, hint: 'Send data of your own in args.' },
  )
