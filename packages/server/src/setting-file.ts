/** A file that a setting names: a mapping, as YAML or JSON. */
import { readFileSync } from 'node:fs'
import { parse as parseYaml } from 'yaml'
import { SettingsError } from './settings.ts'

/** `what` names the file in messages, `example` is one of its lines. Messages never quote the file: it may hold secrets. */
export function readMapping(file: string, what: string, example: string): Readonly<Record<string, unknown>> {
  let tree: unknown
  try {
    tree = parseYaml(readFileSync(file, 'utf8')) as unknown
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : ''
    throw new SettingsError(`Cannot read ${what} ${file}${code}: it must be readable, and JSON or YAML.`)
  }
  if (isMapping(tree)) return tree
  throw new SettingsError(`${file}, ${what}, must hold names with their values, such as ${example}`)
}

export const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
