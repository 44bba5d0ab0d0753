/** Schemas of arguments, field by field as the server writes them. */

export interface SchemaView {
  readonly type: string
  readonly version: string | number
  readonly uri: string
  readonly schema?: unknown
  readonly created_at: string
  readonly [field: string]: unknown
}

export interface SchemaVersionView extends SchemaView {
  readonly is_latest: boolean
}
