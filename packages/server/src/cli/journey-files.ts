/** Definitions in files. They may name OpenAPI documents in files beside them; a server takes only what is in the text. */
import { clockFrom, effectiveBudgetMs, type Definition, type FindOpenApi, type RunLimits } from '@curfew/core'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, isAbsolute, relative, resolve, sep } from 'node:path'
import { parse } from 'yaml'
import type { Located } from '../engine/definitions/source.ts'
import { checksWith, judge } from '../engine/definitions/verdict.ts'
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

/** `-` is the standard input. */
export async function judgeFile(file: string, limits: RunLimits, root?: string): Promise<Judged> {
  const text = readFileSync(file === '-' ? 0 : file, 'utf8')
  const expressions = openExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: systemRandom() })
  try {
    const openApi = openApiIn([file === '-' ? '.' : dirname(file), ...(root === undefined ? [] : [root])])
    const checks = { ...checksWith(expressions, limits), openApi }
    const { definition, source, errors, warnings } = await judge(text, checks, () => Promise.resolve())
    const effectiveMaxDurationSec = definition === null ? null : effectiveBudgetMs(definition, limits) / 1000
    const whole = definition === null ? source : inlined(source, openApi)
    return { file, text, definition, source: whole, effectiveMaxDurationSec, errors, warnings }
  } finally {
    await expressions.close()
  }
}

/**
 * Files are named relative to the definition, or to the root that was given, and lie in one of these folders, also where
 * links lead: what is read here goes to a server, and the author of a definition may be another person than its sender.
 */
function openApiIn(folders: readonly string[]): FindOpenApi {
  return (ref) => {
    const places = folders.map((folder) => resolve(folder, ref))
    const existing = places.filter((place) => existsSync(place))
    if (existing.length === 0)
      return { problem: `No such file: ${places.join(', ')}. --root DIR names another folder.` }
    const found = existing.find((place) => folders.some((folder) => isFileWithin(folder, place)))
    if (found === undefined)
      return {
        problem: `${existing.join(' and ')} must be a file within ${folders.join(' or ')}. --root DIR names another folder.`,
      }
    try {
      return { document: parse(readFileSync(found, 'utf8')) as unknown }
    } catch (error) {
      const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
      return { problem: `${found} cannot be read: ${reason}` }
    }
  }
}

/** Where links lead counts. */
function isFileWithin(folder: string, place: string): boolean {
  if (!existsSync(folder)) return false
  const inside = relative(realpathSync(folder), realpathSync(place))
  // On Windows the way to another drive is absolute.
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) return false
  return statSync(place).isFile()
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
