/** Reads settings from flags, from the environment and from a file. Errors name what was most likely meant. */
import { readFileSync } from 'node:fs'
import { didYouMean, formatDuration, MAX_DURATION_MS, nearestName, vocabulary } from '@curfew/core'
import { parse as parseYaml } from 'yaml'
import { SECRET_VARIABLES } from './engine/journeys/call-auth.ts'
import { envOf, flagOf, readDuration, type Setting, SETTINGS, SettingsError, type Value } from './settings-table.ts'

/** What a command takes besides settings. */
export interface Takes {
  readonly names?: number
  readonly switches?: readonly string[]
  /** The command whose help lists what it takes; `serve` if left out. */
  readonly command?: string
}

/** No settings: which server a command asks, and one for tests of the project itself. */
const KNOWN_ENV = new Set(['CURFEW_CONFIG', 'CURFEW_URL', 'CURFEW_TEST_DATABASE_URL', ...SETTINGS.map(envOf)])

type Env = Readonly<Record<string, string | undefined>>

/** Set in every pod for every service of its namespace: `CURFEW_PORT=tcp://…` beside a service named `curfew`. */
const KUBERNETES = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/

export const isOfKubernetes = (name: string, env: Env): boolean =>
  KUBERNETES.test(name) || (name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(env[name] ?? ''))

export function warningsOf(env: Env): string[] {
  const own = Object.keys(env).filter((name) => name.startsWith('CURFEW_') && !name.startsWith(SECRET_VARIABLES))
  const ofKubernetes = own.filter((name) => isOfKubernetes(name, env))
  const unknown = own.filter((name) => !KNOWN_ENV.has(name) && !ofKubernetes.includes(name))
  const warnings = unknown.map((name) => {
    const nearest = nearestSetting(name.slice('CURFEW_'.length))
    const rest = nearest === null ? 'curfew serve --help lists those that are.' : didYouMean(envOf(nearest))
    return `${name} is not a known variable and has no effect. ${rest}`
  })
  if (ofKubernetes.length > 0)
    warnings.unshift(
      `Ignored ${ofKubernetes.join(', ')}: variables that Kubernetes sets for a service. Set enableServiceLinks: false in the pod to remove them.`,
    )
  return warnings
}

/** By their names in the environment, by those of their flags, and by their last part alone (the defaults come first). */
const BY_NAME = new Map<string, Setting>()
for (const nameOf of [envName, ({ flag }: Setting) => flag ?? '', ({ key }: Setting) => key.split('.').at(-1) ?? '']) {
  for (const setting of SETTINGS) {
    const name = snake(nameOf(setting))
    if (name !== '' && !BY_NAME.has(name)) BY_NAME.set(name, setting)
  }
}

const SETTING_NAMES = vocabulary([...BY_NAME.keys()])

function envName(setting: Setting): string {
  return envOf(setting).slice('CURFEW_'.length)
}

function snake(name: string): string {
  return name.replace(/^-+/, '').replaceAll(/[.-]/g, '_').toLowerCase()
}

/** `name`: a flag, a key or a variable that is not known. */
function nearestSetting(name: string): Setting | null {
  const nearest = nearestName(snake(name), SETTING_NAMES)
  return nearest === null ? null : (BY_NAME.get(nearest) ?? null)
}

/** With a space before it, to follow a sentence. */
function meant(name: string, shown: (setting: Setting) => string): string {
  const nearest = nearestSetting(name)
  return nearest === null ? '' : ` ${didYouMean(shown(nearest))}`
}

interface Given {
  readonly flags: Map<string, string>
  readonly names: string[]
  readonly switches: Set<string>
}

export function readFlags(args: readonly string[], takes: Takes): Given {
  const known = new Map(SETTINGS.map((setting) => [flagOf(setting), setting]))
  const flags = new Map<string, string>()
  const names: string[] = []
  const switches = new Set<string>()
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] ?? ''
    if (!arg.startsWith('--')) {
      if (names.length >= (takes.names ?? 0))
        throw new SettingsError(
          `Unexpected argument ${JSON.stringify(arg)}. See curfew ${takes.command ?? 'serve'} --help.`,
        )
      names.push(arg)
      continue
    }
    if (takes.switches?.includes(arg) === true) {
      switches.add(arg)
      continue
    }
    const equals = arg.indexOf('=')
    const name = equals < 0 ? arg : arg.slice(0, equals)
    const setting = known.get(name)
    if (setting === undefined && name !== '--config')
      throw new SettingsError(
        `Unknown flag ${name}.${meant(name, flagOf)} See curfew ${takes.command ?? 'serve'} --help.`,
      )
    if (equals >= 0) flags.set(name, arg.slice(equals + 1))
    else if (setting?.kind === 'flag') flags.set(name, 'true')
    else {
      const value = args[index + 1]
      if (value === undefined || value.startsWith('--')) throw new SettingsError(`${name} needs a value.`)
      flags.set(name, value)
      index += 1
    }
  }
  return { flags, names, switches }
}

export function readFile(file: string): Map<string, unknown> {
  let tree: unknown
  try {
    tree = parseYaml(readFileSync(file, 'utf8')) as unknown
  } catch (error) {
    throw new SettingsError(
      `Cannot read the configuration file ${file}: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  return flattened(tree, file)
}

/** A tree of settings by their dotted keys; `place` is where it stands. */
export function flattened(tree: unknown, place: string): Map<string, unknown> {
  const found = new Map<string, unknown>()
  const known = new Set(SETTINGS.map(({ key }) => key))
  const walk = (node: unknown, path: string): void => {
    if (typeof node === 'object' && node !== null && !Array.isArray(node) && !known.has(path)) {
      for (const [key, value] of Object.entries(node)) walk(value, path === '' ? dashed(key) : `${path}.${dashed(key)}`)
      return
    }
    if (!known.has(path)) {
      const below = SETTINGS.find(({ key }) => key.startsWith(`${path}.`))?.key
      if (node === null && below !== undefined) return
      throw new SettingsError(wrongPlace(path, node, below, place))
    }
    if (node !== null && node !== undefined) found.set(path, node)
  }
  if (tree !== null && tree !== undefined) walk(tree, '')
  return found
}

/** `below`: a key that the path leads to, if there are any. */
function wrongPlace(path: string, node: unknown, below: string | undefined, place: string): string {
  const found = Array.isArray(node) ? 'a list' : JSON.stringify(node)
  if (path === '') return `${place} must hold keys with their values, such as "port: 9000", and not ${found}.`
  if (below === undefined)
    return `Unknown key "${path}" in ${place}.${meant(path, ({ key }) => key)} curfew config prints every key.`
  return `"${path}" in ${place} must hold keys of its own, such as ${below}, and not ${found}.`
}

/** `total_timeout` and `totalTimeout` are `total-timeout` as well. */
const dashed = (key: string): string =>
  key.replaceAll('_', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export function readValue(setting: Setting, given: unknown, source: string): Value {
  const text =
    typeof given === 'string' ? given : typeof given === 'number' || typeof given === 'boolean' ? String(given) : null
  const bad = (expected: string): SettingsError => new SettingsError(`${source} must be ${expected}.`)
  if (text === null) throw bad('a plain value')
  switch (setting.kind) {
    case 'text':
      return text
    case 'whole':
      if (!/^\d{1,9}$/.test(text)) throw bad('a whole number')
      if (setting.key === 'port' && Number(text) > 65_535) throw bad('a port between 0 and 65535')
      return within(setting, Number(text), text, source)
    case 'flag':
      if (text !== 'true' && text !== 'false') throw bad('true or false')
      return text === 'true'
    case 'choice':
      if (setting.choices?.includes(text) !== true) throw bad(`one of ${setting.choices?.join(', ') ?? ''}`)
      return text
    case 'duration':
      try {
        return within(setting, readDuration(text), text, source)
      } catch (error) {
        throw error instanceof OutOfRange ? error : bad('a duration such as 30s, 5m, 1h30m, 7d or 250ms')
      }
  }
}

class OutOfRange extends SettingsError {}

const MAX_COUNTED = 999_999_999

function within(setting: Setting, value: number, text: string, source: string): number {
  const { kind, byDefault, least = 0 } = setting
  if (value >= least) return value
  const words = (of: number): string => (kind === 'duration' ? formatDuration(of) : String(of))
  const range = `between ${words(least)} and ${words(kind === 'duration' ? MAX_DURATION_MS : MAX_COUNTED)}`
  const remedy =
    byDefault === null ? 'Leave it out to set none.' : `Leave it out for the default, ${words(Number(byDefault))}.`
  throw new OutOfRange(`${source} must be ${range}, and not ${text}. ${remedy}`)
}
