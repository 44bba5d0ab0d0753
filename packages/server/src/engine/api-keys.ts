/** Keys by which callers of journeys prove who they are, as the engine sees them. */
import {
  checkId,
  type Definition,
  type InboundRequest,
  type KeySource,
  type KeyVerdict,
  type KeyVerdicts,
} from '@curfew/core'

export interface ApiKeys {
  /** What the key in a request leads to. `source` null: where the profile says. */
  judge(profile: string, source: KeySource | null, request: InboundRequest): KeyVerdict
  /** Where a profile says that its keys stand; null: it is not there, or does not say. */
  sourceOf(profile: string): KeySource | null
}

export const noApiKeys: ApiKeys = {
  judge: (profile) => ({ misconfigured: `this server has no profile ${profile} of API keys (--api-keys-file)` }),
  sourceOf: () => null,
}

/** The query parameters in which the keys stand that a definition asks for. */
export function keyParameters(keys: ApiKeys, asked: Definition['apiKeys']): string[] {
  return asked.flatMap(({ profile, source }) => {
    const from = source ?? keys.sourceOf(profile)
    return from?.location === 'query' ? [from.name] : []
  })
}

/** For all that the states of a definition may ask. Only this is kept of the keys. */
export function keyVerdicts(keys: ApiKeys, { apiKeys }: Definition, request: InboundRequest): KeyVerdicts | undefined {
  if (apiKeys.length === 0) return undefined
  return Object.fromEntries(
    apiKeys.map(({ profile, source }) => [checkId({ profile, source }), keys.judge(profile, source, request)]),
  )
}
