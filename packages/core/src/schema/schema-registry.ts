/**
 * The registry of schemas for arguments, by job type and version (OJS schema registry, OJS job versioning §6). A version
 * that is registered never changes. What is validated is said elsewhere: by a job that names its schema, or by the policy
 * of its type (`validation`).
 */
import { docKind } from '../doc.ts'
import { OjsError } from '../errors.ts'
import type { Instant } from '../time/clock.ts'

export interface Schema {
  /** No other registration has it, not even of the same version after this one was deleted. */
  readonly id: string
  readonly uri: string
  readonly type: string
  /** As it was registered: `2`, `2.0` or `2.0.0`. */
  readonly version: string
  readonly schema: unknown
  readonly createdAt: Instant
}

/** By `type/version`, the version in three parts. */
export const SCHEMA = docKind<Schema>('schema')
/** The versions of a type in three parts, the newest first. A change of a type's schemas locks it. */
export const SCHEMA_VERSIONS = docKind<{ readonly versions: readonly string[] }>('schema-versions')
export const SCHEMA_URI = docKind<{ readonly type: string; readonly version: string }>('schema-uri')

export const MAX_SCHEMA_VERSIONS = 100

/** `2` and `2.0` are version 2.0.0. Null when it is not a version. */
export function fullVersion(version: unknown): string | null {
  const written = typeof version === 'number' ? String(version) : version
  if (typeof written !== 'string' || !/^\d{1,9}(\.\d{1,9}){0,2}$/.test(written)) return null
  const parts = written.split('.').map((part) => String(Number(part)))
  return [...parts, '0', '0'].slice(0, 3).join('.')
}

/** Newest first. */
export function newerFirst(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  for (const index of [0, 1, 2]) {
    const difference = (y?.[index] ?? 0) - (x?.[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

export const schemaId = (type: string, fullVersion: string): string => `${type}/${fullVersion}`
export const defaultUri = (type: string, version: string): string => `urn:ojs:schema:${type}:v${version}`

/** A mistake in arguments: where (a JSON pointer into `args`), and what. */
export interface Mistake {
  readonly pointer: string
  readonly keyword: string
  readonly message: string
}

export function schemaRefusal({ type, version, uri }: Schema, mistakes: readonly Mistake[]): OjsError {
  const [worst] = mistakes
  const where =
    worst === undefined ? '' : ` ${worst.pointer === '' ? 'args' : `args${worst.pointer}`}: ${worst.message}`
  return new OjsError('schema_validation', `args do not match the schema of ${type} ${version}.${where}`, {
    details: { field: 'args', schema: uri, type, version, pointer: worst?.pointer ?? '', validation_errors: mistakes },
  })
}
