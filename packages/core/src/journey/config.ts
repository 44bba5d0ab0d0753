/**
 * Configuration that a definition asks for (`spec.platform.config`): keys with their types. The server has the values;
 * expressions see them as `platform.config`, and only those that the definition names.
 */
import type { Field } from '../diagnostics.ts'
import type { Data } from './run/run.ts'
import { isData, memberOf } from './run/values.ts'

const TYPES = ['string', 'integer', 'number', 'boolean', 'object'] as const

export interface ConfigKey {
  readonly type: (typeof TYPES)[number]
  readonly required: boolean
}

export type ConfigKeys = Readonly<Record<string, ConfigKey>>

/** Where a definition says what it needs. */
export const CONFIG_PATH = '/spec/platform/config'

const CODE = 'CONFIG-1'
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

export function readConfig(platform: Field | null): ConfigKeys {
  const config = platform?.members(['config'], { code: CODE })?.get('config') ?? null
  return Object.fromEntries(
    (config?.entries(CODE) ?? []).map(([name, field]) => {
      if (!NAME.test(name)) field.errorAtKey(CODE, `${JSON.stringify(name)} must be letters, digits and "_".`)
      const key = field.members(['type', 'required', 'description'], { code: CODE })
      key?.get('description')?.text(CODE)
      return [
        name,
        {
          type: key?.need('type', CODE)?.oneOf(TYPES, CODE) ?? 'string',
          required: key?.get('required')?.flag(CODE) ?? false,
        },
      ]
    }),
  )
}

/** What is missing from these values, or of another type. Messages name keys, never values. */
export function configProblems(keys: ConfigKeys, values: Data): string[] {
  return Object.entries(keys).flatMap(([name, { type, required }]) => {
    const value = memberOf(values, name)
    if (value === undefined || value === null)
      return required ? [`platform.config.${name} has no value on this server (--platform-config).`] : []
    return isOfType(value, type) ? [] : [`platform.config.${name} is not of the type ${type} on this server.`]
  })
}

function isOfType(value: unknown, type: ConfigKey['type']): boolean {
  if (type === 'integer') return Number.isInteger(value)
  return type === 'object' ? isData(value) : typeof value === type
}

/** The values that a definition may see. */
export function configFor(keys: ConfigKeys, values: Data): Data {
  return Object.fromEntries(
    Object.keys(keys).flatMap((name) => {
      const value = memberOf(values, name)
      return value === undefined ? [] : [[name, value] as const]
    }),
  )
}
