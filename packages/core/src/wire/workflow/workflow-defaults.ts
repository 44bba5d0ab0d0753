/** Options of a branch as defaults for the jobs below it. */
import type { Json } from '../../job/job.ts'
import { fewFields } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { membersOf, type Member } from '../json/json-text.ts'
import type { Fields } from '../shape.ts'
import { optionsIn, under } from './workflow-places.ts'

export interface Given {
  readonly fields: Fields
  readonly members: ReadonlyMap<string, Member>
  readonly defaults: Defaults
}

/** Options that hold for every job below, unless it says otherwise. */
export interface Defaults {
  readonly fields: Fields
  readonly members: ReadonlyMap<string, Member>
}

export const NO_DEFAULTS: Defaults = { fields: {}, members: new Map() }

/** What a branch says for all below it, over what was said above it. */
export function withDefaults({ fields, members, defaults }: Given, at: string): Defaults {
  if (!isGiven(fields['options'])) return defaults
  const own = fewFields(fields['options'], under(at, 'options'))
  const texts = membersOf(members.get('options')?.value ?? '{}')
  const kept = [...defaults.members].filter(([key]) => !isSaid(own, key))
  return {
    fields: Object.fromEntries([...kept.map(([key]) => [key, defaults.fields[key]]), ...Object.entries(own)]) as Fields,
    members: new Map([...kept, ...texts]),
  }
}

export function isInherited(field: string, own: Fields, { members }: Defaults): boolean {
  const [, key = ''] = /^options\.([^.]*)/.exec(field) ?? []
  return members.has(key) && !Object.hasOwn(own, key)
}

export interface Template {
  readonly source: Json
  readonly fields: Fields
}

/** A step's enqueue request: what it says itself, and the defaults it says nothing about. */
export function jobText(fields: Fields, members: ReadonlyMap<string, Member>, defaults: Defaults): Template {
  const options = optionsIn(fields)
  const extra = [...defaults.members.values()].filter(({ key }) => !isSaid(fields, key) && !isSaid(options, key))
  const own = [...members.values()].filter(({ key }) => key !== 'id' && key !== 'depends_on' && key !== 'options')
  const said = membersOf(members.get('options')?.value ?? '{}')
  const inOptions = [...extra, ...said.values()]
  const texts = own.map(({ rawKey, value }) => `${rawKey}:${value}`)
  // Options of the wrong form are left to be refused as such.
  const areObject = !isGiven(fields['options']) || Object.is(options, fields['options'])
  const { id: _id, depends_on: _dependsOn, options: sent, ...rest } = fields
  if (!areObject) {
    texts.push(`"options":${members.get('options')?.value ?? 'null'}`)
    return { source: `{${texts.join(',')}}`, fields: { ...rest, options: sent } }
  }
  if (inOptions.length === 0) return { source: `{${texts.join(',')}}`, fields: rest }
  texts.push(`"options":{${inOptions.map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`)
  const merged = { ...Object.fromEntries(extra.map(({ key }) => [key, defaults.fields[key]])), ...options }
  return { source: `{${texts.join(',')}}`, fields: { ...rest, options: merged } }
}

/** A field said in another unit, or by another name, is said. */
function isSaid(fields: Fields, key: string): boolean {
  const twin = key.endsWith('_ms') ? key.slice(0, -3) : (TWINS[key] ?? `${key}_ms`)
  return isGiven(fields[key]) || isGiven(fields[twin])
}

const TWINS: Readonly<Record<string, string>> = {
  retry: 'retry_policy',
  retry_policy: 'retry',
  scheduled_at: 'delay_until',
  delay_until: 'scheduled_at',
}
