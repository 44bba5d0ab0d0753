/**
 * Definitions that were deployed, as documents: one for each name, which says what is in force; one for each version,
 * which never changes, so that a run goes on as it began; and one for each path of an Api, so that no two share one.
 */
import type { Instant } from '../time/clock.ts'
import { docKind } from '../doc.ts'
import type { Definition, JourneyKind } from './definition.ts'

export interface DeployedName {
  readonly name: string
  /** The one in force: that of the last deployment. */
  readonly version: string
  readonly kind: JourneyKind
  /** All there are, in the order in which they came. */
  readonly versions: readonly string[]
  /** The paths it holds. */
  readonly paths: readonly string[]
  readonly updatedAt: Instant
}

export interface DeployedVersion {
  readonly name: string
  readonly version: string
  readonly kind: JourneyKind
  /** As it was written, as JSON. */
  readonly source: unknown
  /** The warnings of its deployment. */
  readonly warnings: readonly Readonly<Record<string, unknown>>[]
  readonly deployedAt: Instant
}

export const DEFINITION = docKind<DeployedName>('definition')
export const DEFINITION_VERSION = docKind<DeployedVersion>('definition-version')
export const API_PATH = docKind<{ readonly name: string }>('api-path')

/** Runs refer to versions, so they are kept; a name with more of them is not being deployed but used as a store. */
export const MAX_DEFINITION_VERSIONS = 1_000

export const versionId = (name: string, version: string): string => `${name}/${version}`

/** Where an Api answers, below /api/v1. */
export function pathsOf({ kind, name, route }: Pick<Definition, 'kind' | 'name' | 'route'>): readonly string[] {
  if (kind !== 'Api') return []
  return [...new Set([`/apis/${name}`, ...(route === null ? [] : [route.path])])]
}

/** The same value, however its members are ordered. */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every(
      (key) =>
        Object.hasOwn(b, key) && isSameJson((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
    )
  )
}
