/** Definitions in files. They may name OpenAPI documents in files beside them; a server takes only what is in the text. */
import { clockFrom, effectiveBudgetMs, type Definition, type FindOpenApi, type RunLimits } from '@curfew/core'
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import type { Located } from '../engine/definition-source.ts'
import { checksWith, judge } from '../engine/definition-verdict.ts'
import { openExpressions } from '../expressions/open-expressions.ts'
import { nodeHost, systemRandom } from '../host.ts'

/** What a file is worth. */
export interface Judged {
  readonly file: string
  readonly text: string
  readonly definition: Definition | null
  /** As it is to be sent to a server: with the documents themselves in the place of their files' names. */
  readonly source: unknown
  readonly effectiveMaxDurationSec: number | null
  readonly errors: readonly Located[]
  readonly warnings: readonly Located[]
}

/** `-` is what comes in on the standard input. */
export async function judgeFile(file: string, limits: RunLimits): Promise<Judged> {
  const text = readFileSync(file === '-' ? 0 : file, 'utf8')
  const expressions = openExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: systemRandom() })
  try {
    const openApi = openApiBeside(file)
    const checks = { ...checksWith(expressions, limits), openApi }
    const { definition, source, errors, warnings } = await judge(text, checks, () => Promise.resolve())
    const effectiveMaxDurationSec = definition === null ? null : effectiveBudgetMs(definition, limits) / 1000
    const whole = definition === null ? source : inlined(source, openApi)
    return { file, text, definition, source: whole, effectiveMaxDurationSec, errors, warnings }
  } finally {
    await expressions.close()
  }
}

/** Files are named relative to the definition. */
function openApiBeside(file: string): FindOpenApi {
  const folder = file === '-' ? '.' : dirname(file)
  return (ref) => {
    try {
      return { document: parse(readFileSync(resolve(folder, ref), 'utf8')) as unknown }
    } catch (error) {
      const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
      return { problem: `${ref} cannot be read: ${reason}` }
    }
  }
}

/** Of a definition that was found right. */
function inlined(source: unknown, find: FindOpenApi): unknown {
  const { spec, ...rest } = source as { readonly spec: { readonly apis?: unknown } }
  if (spec.apis === undefined) return source
  const written = Object.entries(spec.apis as Readonly<Record<string, { readonly openApiRef?: string }>>)
  const apis = written.map(([name, api]) => {
    const found = api.openApiRef === undefined ? null : find(api.openApiRef)
    return [name, found !== null && 'document' in found ? { openApi: found.document } : api] as const
  })
  return { ...rest, spec: { ...spec, apis: Object.fromEntries<unknown>(apis) } }
}
