/**
 * Profiles of API keys, from a file: where a key stands in a request, and the keys by their ids. A key is known by its
 * SHA-256, or by the name of a secret that holds it; compared are digests, all of them, whichever fits.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { InboundRequest, KeySource, KeyVerdict } from '@curfew/core'
import type { ApiKeys } from './engine/api-keys.ts'
import { noApiKeys } from './engine/api-keys.ts'
import type { Secrets } from './engine/journeys/call-auth.ts'
import { isMapping, readMapping } from './setting-file.ts'
import { SettingsError } from './settings.ts'

interface Profile {
  readonly source: KeySource | null
  readonly keys: readonly { readonly id: string; readonly digest: () => Buffer | null }[]
}

const digestOf = (key: string): Buffer => createHash('sha256').update(key).digest()

export function openApiKeys(file: string | null, secrets: Secrets): ApiKeys {
  if (file === null) return noApiKeys
  const profiles = readProfiles(file, secrets)
  return {
    sourceOf: (name) => profiles.get(name)?.source ?? null,
    judge(name, source, request) {
      const profile = profiles.get(name)
      if (profile === undefined) return noApiKeys.judge(name, source, request)
      const from = source ?? profile.source
      if (from === null) return { misconfigured: `neither the state nor the profile ${name} says where the key stands` }
      return verdictOn(profile, keyIn(from, request))
    },
  }
}

function keyIn({ location, name }: KeySource, { headers, query }: InboundRequest): string | null {
  const parts = location === 'header' ? headers : query
  const key = Object.hasOwn(parts, name) ? parts[name] : undefined
  return key === undefined || key === '' ? null : key
}

function verdictOn({ keys }: Profile, key: string | null): KeyVerdict {
  if (key === null) return { problem: 'missing' }
  const sent = digestOf(key)
  let found: string | null = null
  for (const { id, digest } of keys) {
    const known = digest()
    if (known !== null && timingSafeEqual(known, sent)) found ??= id
  }
  return found === null ? { problem: 'invalid' } : { keyId: found }
}

// ---- The file ----

function readProfiles(file: string, secrets: Secrets): Map<string, Profile> {
  const tree = readMapping(file, 'the file of API keys', 'default: { source: …, keys: … }')
  const bad = (where: string, wanted: string): SettingsError =>
    new SettingsError(`${where} in ${file} must be ${wanted}.`)
  return new Map(
    Object.entries(tree).map(([name, profile]) => {
      if (!isMapping(profile) || !isMapping(profile['keys'])) throw bad(name, 'a mapping with source and keys')
      const keys = Object.entries(profile['keys']).map(([id, key]) => ({
        id,
        digest:
          readKey(key, secrets) ?? fail(bad(`${name}.keys.${id}`, '{ sha256: 64 hex digits } or { secretRef: name }')),
      }))
      const source = profile['source'] === undefined ? null : readSource(profile['source'])
      if (source === undefined) throw bad(`${name}.source`, '{ location: header or query, name: … }')
      return [name, { source, keys }] as const
    }),
  )
}

function readKey(key: unknown, secrets: Secrets): (() => Buffer | null) | null {
  if (!isMapping(key)) return null
  const { sha256, secretRef } = key
  if (typeof sha256 === 'string' && /^[0-9a-f]{64}$/i.test(sha256)) {
    const digest = Buffer.from(sha256, 'hex')
    return () => digest
  }
  if (typeof secretRef !== 'string') return null
  return () => {
    const value = secrets.valueOf(secretRef.replace(/^secret:\/\//, ''))
    return value === null ? null : digestOf(value)
  }
}

function readSource(source: unknown): KeySource | undefined {
  if (!isMapping(source)) return undefined
  const { location, name } = source
  if (typeof name !== 'string' || name === '') return undefined
  if (location === 'header') return { location, name: name.toLowerCase() }
  return location === 'query' ? { location, name } : undefined
}

function fail(error: Error): never {
  throw error
}
