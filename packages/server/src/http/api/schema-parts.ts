/** The pieces that descriptions of answers are made of, as JSON Schema. */
import type { JsonSchema } from '@curfew/core'

export interface Described {
  /** Of every success, as JSON; null: an answer without a body, or one that is not JSON. */
  readonly body: JsonSchema | null
  /** Instead of JSON, or (with a body) besides. */
  readonly media?: string
  /** Statuses whose body is not the one every success or every refusal has. */
  readonly others?: Readonly<Record<number, JsonSchema | null>>
  /** A definition may choose any status. */
  readonly anyStatus?: boolean
}

export type Members = Readonly<Record<string, JsonSchema>>

export const TEXT: JsonSchema = { type: 'string' }
export const FLAG: JsonSchema = { type: 'boolean' }
export const COUNT: JsonSchema = { type: 'integer', minimum: 0 }
export const NUMBER: JsonSchema = { type: 'number' }
export const OBJECT: JsonSchema = { type: 'object' }
export const ANY: JsonSchema = {}
export const TIME: JsonSchema = { type: 'string', format: 'date-time' }
export const TRUE: JsonSchema = { const: true }
export const nullable = ({ type, ...rest }: JsonSchema): JsonSchema => ({ type: [type, 'null'], ...rest })
export const listOf = (items: JsonSchema): JsonSchema => ({ type: 'array', items })
export const mapOf = (values: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties: values })

export function members(always: Members, sometimes: Members = {}): JsonSchema {
  return { type: 'object', properties: { ...always, ...sometimes }, required: Object.keys(always) }
}

/** Said once in the description, and referred to by name. */
export function resource(title: string, always: Members, sometimes: Members = {}): JsonSchema {
  return { title, ...members(always, sometimes) }
}

export const json = (body: JsonSchema, others: Readonly<Record<number, JsonSchema>> = {}): Described => ({
  body,
  others,
})
export const stream = (body: JsonSchema | null = null): Described => ({ body, media: 'text/event-stream' })
