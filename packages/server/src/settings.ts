/**
 * Settings, said once: a key, its environment variable, its flag, how it is read and what it is for. Flags win over the
 * environment, the environment over the file, the file over the default. Unknown flags and keys are errors; unknown
 * variables are warnings, because others set variables too (Kubernetes does, for every service).
 */
import { formatDuration } from '@curfew/core'
import {
  flattened,
  isOfKubernetes,
  readFile,
  readFlags,
  readValue,
  type Takes,
  warningsOf,
} from './settings-sources.ts'
import { envOf, flagOf, type Setting, SETTINGS, SettingsError, type Value } from './settings-table.ts'

export { envOf, flagOf, SETTINGS, SettingsError } from './settings-table.ts'

export type Settings = Readonly<Record<string, Value>>

export interface Loaded {
  readonly values: Settings
  readonly sources: Readonly<Record<string, string>>
  /** What was said without effect. */
  readonly warnings: readonly string[]
  /** What is not a setting but belongs to the command: names of files, and switches such as --force. */
  readonly names: readonly string[]
  readonly switches: ReadonlySet<string>
}

export function loadSettings(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  takes: Takes = {},
): Loaded {
  const { flags, names, switches } = readFlags(args, takes)
  const file = flags.get('--config') ?? env['CURFEW_CONFIG']
  const fromFile = file === undefined ? new Map<string, unknown>() : readFile(file)
  const warnings = warningsOf(env)
  const values: Record<string, Value> = {}
  const sources: Record<string, string> = {}
  for (const setting of SETTINGS) {
    const flag = flags.get(flagOf(setting))
    const fromEnv = isOfKubernetes(envOf(setting), env) ? undefined : env[envOf(setting)]
    const [given, source] =
      flag !== undefined
        ? [flag, flagOf(setting)]
        : fromEnv !== undefined && fromEnv !== ''
          ? [fromEnv, envOf(setting)]
          : fromFile.has(setting.key)
            ? [fromFile.get(setting.key), `${file ?? 'file'}: ${setting.key}`]
            : [undefined, 'default']
    values[setting.key] = given === undefined ? setting.byDefault : readValue(setting, given, source)
    sources[setting.key] = given === undefined ? 'default' : source
  }
  chooseStore(values, sources)
  return { values, sources, warnings, names, switches }
}

/** Settings handed in by a program, by their dotted keys. */
export function settingsFrom(given: Readonly<Record<string, unknown>>): Settings {
  const found = flattened(given, 'the settings')
  const values: Record<string, Value> = {}
  const sources: Record<string, string> = {}
  for (const setting of SETTINGS) {
    const { key, byDefault } = setting
    values[key] = found.has(key) ? readValue(setting, found.get(key), key) : byDefault
    sources[key] = found.has(key) ? key : 'default'
  }
  chooseStore(values, sources)
  return values
}

/** `data` and `database` exclude each other: the one that is said in the stronger place counts. */
function chooseStore(values: Record<string, Value>, sources: Record<string, string>): void {
  if (values['database'] === '') values['database'] = null
  if (values['database'] === null) return
  const rank = (key: string): number => {
    const source = sources[key] ?? 'default'
    return source === 'default' ? 0 : source.startsWith('--') ? 3 : source.startsWith('CURFEW_') ? 2 : 1
  }
  const [data, database] = [rank('data'), rank('database')]
  if (data === database)
    throw new SettingsError(
      `${sources['data'] ?? ''} and ${sources['database'] ?? ''} name two places for the data. Leave one out.`,
    )
  const [used, unused] = data > database ? ['data', 'database'] : ['database', 'data']
  values[unused] = null
  sources[unused] = `not used because of ${sources[used] ?? ''}`
}

/** The effective configuration, with secrets hidden; the output is itself a valid file. */
export function printSettings({ values, sources }: Loaded): string {
  const lines: string[] = []
  let open: string[] = []
  for (const setting of SETTINGS) {
    const path = setting.key.split('.')
    const name = path.pop() ?? ''
    path.forEach((part, depth) => {
      if (open[depth] === part && open.slice(0, depth).join('.') === path.slice(0, depth).join('.')) return
      lines.push(`${'  '.repeat(depth)}${part}:`)
    })
    open = path
    const value = values[setting.key] ?? null
    // As a comment: read back as a file, a hidden secret must not become a secret everybody knows.
    const hidden = hides(setting, value) ? '# ' : ''
    lines.push(
      `${'  '.repeat(path.length)}${hidden}${name}: ${shown(setting, value)}  # ${sources[setting.key] ?? 'default'}`,
    )
  }
  return lines.join('\n')
}

function hides({ secret }: Setting, value: Value): boolean {
  if (value === null || secret === undefined) return false
  return secret === 'url' ? hidePassword(String(value)) !== value : secret
}

const HIDDEN = '********'

/** An address as it may be shown to anybody. One that cannot be read is hidden as a whole. */
export function hidePassword(address: string): string {
  if (!URL.canParse(address)) return HIDDEN
  const url = new URL(address)
  if (url.password === '' && !url.searchParams.has('password')) return address
  if (url.password !== '') url.password = HIDDEN
  if (url.searchParams.has('password')) url.searchParams.set('password', HIDDEN)
  return url.href
}

function shown(setting: Setting, value: Value): string {
  if (value === null) return 'null'
  if (setting.secret === true) return JSON.stringify(HIDDEN)
  if (setting.secret === 'url') return JSON.stringify(hidePassword(String(value)))
  if (setting.kind === 'duration') return formatDuration(Number(value))
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}
