/**
 * Settings, said once: a key, its environment variable, its flag, how it is read and what it is for. Flags win over the
 * environment, the environment over the file, the file over the default. Unknown flags and keys are errors; unknown
 * variables are warnings, because others set variables too (Kubernetes does, for every service).
 */
import { readFileSync } from 'node:fs'
import { parse as parseYaml } from 'yaml'
import {
  didYouMean,
  formatDuration,
  MIN_SHARED_LIMIT_MS,
  MAX_DURATION_MS,
  nearestName,
  parseDuration,
  vocabulary,
} from '@curfew/core'
import { SECRET_VARIABLES } from './engine/journeys/call-auth.ts'

export class SettingsError extends Error {}

type Value = string | number | boolean | null

interface Setting {
  /** Dotted, as in the file. */
  readonly key: string
  readonly kind: 'text' | 'whole' | 'flag' | 'duration' | 'choice'
  readonly choices?: readonly string[]
  readonly byDefault: Value
  /** The least that makes sense, in milliseconds or as a count: with less, nothing would work. */
  readonly least?: number
  readonly help: string
  /** 'url': only the password in it. */
  readonly secret?: boolean | 'url'
  /** Where the value is shown in --help. */
  readonly group: 'server' | 'limits' | 'retention' | 'workers' | 'expressions'
  /** Its flag, if that is not the key with dashes. */
  readonly flag?: string
}

const duration = (
  key: string,
  byDefault: string | null,
  help: string,
  group: Setting['group'],
  least: number = MIN_SHARED_LIMIT_MS,
): Setting => ({
  key,
  kind: 'duration',
  byDefault: byDefault === null ? null : readDuration(byDefault),
  least,
  help,
  group,
})

const whole = (key: string, byDefault: number, help: string, group: Setting['group'], least = 1): Setting => ({
  key,
  kind: 'whole',
  byDefault,
  least,
  help,
  group,
})

/** As long as the shortest retention that a queue may have. */
const retention = (key: string, byDefault: string, help: string): Setting =>
  duration(key, byDefault, help, 'retention', 1_000)

export const SETTINGS: readonly Setting[] = [
  {
    key: 'host',
    kind: 'text',
    byDefault: '127.0.0.1',
    help: 'address to listen on; anything but loopback needs a token',
    group: 'server',
  },
  { key: 'port', kind: 'whole', byDefault: 8080, help: 'port to listen on; 0 picks a free one', group: 'server' },
  whole('max-connections', 10_000, 'connections at a time; those beyond are closed', 'server'),
  {
    key: 'data',
    kind: 'text',
    byDefault: './.curfew',
    help: 'directory of the data file; :memory: keeps everything in memory, and nothing for ever',
    group: 'server',
  },
  {
    key: 'database',
    kind: 'text',
    byDefault: null,
    help: 'postgres:// address of a database to use instead of the data file (none)',
    secret: 'url',
    group: 'server',
  },
  {
    key: 'durability',
    kind: 'choice',
    choices: ['full', 'normal'],
    byDefault: 'full',
    help: 'full: an acknowledged write survives loss of power; normal: only a crash of the process',
    group: 'server',
  },
  {
    key: 'token',
    kind: 'text',
    byDefault: null,
    help: 'bearer token with the role admin, beside those that are stored (none)',
    secret: true,
    group: 'server',
  },
  {
    key: 'tls-cert',
    kind: 'text',
    byDefault: null,
    help: 'file of the certificate, as PEM: serves HTTPS; read again when it changes (none)',
    group: 'server',
  },
  {
    key: 'tls-key',
    kind: 'text',
    byDefault: null,
    help: 'file of its private key, as PEM (none)',
    group: 'server',
  },
  {
    key: 'secrets-file',
    kind: 'text',
    byDefault: null,
    help: 'file of names and values for the auth of journey calls, as JSON or YAML (none)',
    group: 'server',
  },
  {
    key: 'api-keys-file',
    kind: 'text',
    byDefault: null,
    help: 'file of API key profiles for apiKeyValidate:v1, as JSON or YAML (none)',
    group: 'server',
  },
  {
    key: 'platform-config',
    kind: 'text',
    byDefault: null,
    help: 'file of values that definitions see as platform.config, as JSON or YAML (none)',
    group: 'server',
  },
  {
    key: 'allowed-hosts',
    kind: 'text',
    byDefault: null,
    help: 'host names served besides loopback while no token is set: a,b,.suffix (none)',
    group: 'server',
  },
  {
    key: 'board-redact',
    kind: 'text',
    byDefault: null,
    help: 'members whose values the board and tokens of the role read are not shown: password,card (none)',
    group: 'server',
  },
  {
    key: 'allow-private-network',
    kind: 'flag',
    byDefault: false,
    help: 'let the server call loopback and private addresses (webhooks, journeys); for development',
    group: 'server',
  },
  {
    key: 'strict',
    kind: 'flag',
    byDefault: false,
    help: 'refuse fields of jobs, cron entries and workflows that are nearly known, instead of warning of them',
    group: 'server',
  },
  {
    key: 'media-alias',
    kind: 'flag',
    byDefault: false,
    help: 'add alias="application/json" to the content type of answers; the official Python SDK needs it',
    group: 'server',
  },
  {
    key: 'log-level',
    kind: 'choice',
    choices: ['debug', 'info', 'warn', 'error', 'silent'],
    byDefault: 'info',
    help: 'how much to log on stderr',
    group: 'server',
  },
  {
    key: 'conformance',
    kind: 'flag',
    byDefault: false,
    help: 'turn on what only a test bench may use',
    group: 'server',
  },
  {
    key: 'clock',
    kind: 'choice',
    choices: ['system', 'manual'],
    byDefault: 'system',
    help: 'manual: time stands still until POST /ojs/v1/admin/clock (needs --conformance)',
    group: 'server',
  },
  duration('limits.defaults.timeout', '30m', 'one attempt', 'limits'),
  duration('limits.defaults.grace-period', '30s', 'from the soft signal to the end of an attempt', 'limits', 0),
  duration('limits.defaults.heartbeat-timeout', '60s', 'silence after which an attempt is stalled', 'limits'),
  duration('limits.defaults.visibility-timeout', '30m', 'reservation without a sign of life', 'limits'),
  duration('limits.defaults.total-timeout', null, 'the whole life of a job (none)', 'limits'),
  duration('limits.defaults.enqueue-ttl', null, 'waiting before the first start (none)', 'limits'),
  {
    key: 'limits.defaults.on-timeout',
    kind: 'choice',
    choices: ['retry', 'discard'],
    byDefault: 'retry',
    help: 'what an execution timeout does',
    group: 'limits',
  },
  duration('limits.caps.timeout', null, 'no attempt may be given more', 'limits'),
  duration('limits.caps.grace-period', null, 'no grace may be longer', 'limits', 0),
  duration('limits.caps.heartbeat-timeout', null, 'no stall clock may be longer', 'limits'),
  duration('limits.caps.visibility-timeout', null, 'no reservation may be longer', 'limits'),
  duration('limits.caps.total-timeout', null, 'no job may live longer', 'limits'),
  duration('limits.caps.enqueue-ttl', null, 'no job may wait longer', 'limits'),
  { ...duration('limits.run.default', '1d', 'a run whose definition says nothing', 'limits'), flag: '--run-default' },
  { ...duration('limits.run.cap', '7d', 'no run may take longer', 'limits'), flag: '--run-cap' },
  {
    key: 'expressions.isolation',
    kind: 'choice',
    choices: ['in-process', 'thread'],
    byDefault: 'in-process',
    help: 'thread: evaluate beside the server, for definitions by people one does not trust',
    group: 'expressions',
  },
  duration('expressions.max-eval', '50ms', 'one evaluation', 'expressions', 5),
  whole('expressions.max-output-bytes', 1_048_576, 'the value of one evaluation', 'expressions', 1_024),
  duration('workers.heartbeat-interval', '5s', 'how often workers are asked to beat', 'workers'),
  duration('workers.heartbeat-timeout', '30s', 'silence after which a worker is declared dead', 'workers'),
  {
    key: 'workers.require-owner',
    kind: 'flag',
    byDefault: false,
    help: 'refuse ACK and FAIL that do not name their worker',
    group: 'workers',
  },
  {
    key: 'workers.judge-unknown',
    kind: 'flag',
    byDefault: false,
    help: 'stall clock also for workers that never registered nor beat',
    group: 'workers',
  },
  retention('retention.completed', '7d', 'completed jobs'),
  retention('retention.cancelled', '7d', 'cancelled jobs'),
  retention('retention.discarded', '30d', 'discarded jobs'),
  retention('retention.dead-letter', '180d', 'dead letters'),
  whole('retention.dead-letter-max', 10_000, 'at most so many dead letters', 'retention'),
  retention('retention.events', '7d', 'events'),
  whole('retention.events-max', 1_000_000, 'at most so many events', 'retention'),
]

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

/** What a command takes besides settings. */
export interface Takes {
  readonly names?: number
  readonly switches?: readonly string[]
}

export const flagOf = ({ key, flag }: Pick<Setting, 'key' | 'flag'>): string => flag ?? `--${key.replaceAll('.', '-')}`
export const envOf = ({ key }: Pick<Setting, 'key'>): string => `CURFEW_${key.replaceAll(/[.-]/g, '_').toUpperCase()}`

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

/** No settings: which server a command asks, and one for tests of the project itself. */
const KNOWN_ENV = new Set(['CURFEW_CONFIG', 'CURFEW_URL', 'CURFEW_TEST_DATABASE_URL', ...SETTINGS.map(envOf)])

type Env = Readonly<Record<string, string | undefined>>

/** Set in every pod for every service of its namespace: `CURFEW_PORT=tcp://…` beside a service named `curfew`. */
const KUBERNETES = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/
const isOfKubernetes = (name: string, env: Env): boolean =>
  KUBERNETES.test(name) || (name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(env[name] ?? ''))

function warningsOf(env: Env): string[] {
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
      `Ignored ${ofKubernetes.join(', ')}: variables that Kubernetes sets for a service. Set enableServiceLinks: false in the pod to be rid of them.`,
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

function readFlags(args: readonly string[], takes: Takes): Given {
  const known = new Map(SETTINGS.map((setting) => [flagOf(setting), setting]))
  const flags = new Map<string, string>()
  const names: string[] = []
  const switches = new Set<string>()
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] ?? ''
    if (!arg.startsWith('--')) {
      if (names.length >= (takes.names ?? 0))
        throw new SettingsError(`Unexpected argument ${JSON.stringify(arg)}. See curfew serve --help.`)
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
      throw new SettingsError(`Unknown flag ${name}.${meant(name, flagOf)} See curfew serve --help.`)
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

function readFile(file: string): Map<string, unknown> {
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
function flattened(tree: unknown, place: string): Map<string, unknown> {
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

function readValue(setting: Setting, given: unknown, source: string): Value {
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

const MOST_COUNTED = 999_999_999

function within(setting: Setting, value: number, text: string, source: string): number {
  const { kind, byDefault, least = 0 } = setting
  if (value >= least) return value
  const words = (of: number): string => (kind === 'duration' ? formatDuration(of) : String(of))
  const range = `between ${words(least)} and ${words(kind === 'duration' ? MAX_DURATION_MS : MOST_COUNTED)}`
  const remedy =
    byDefault === null ? 'Leave it out to set none.' : `Leave it out for the default, ${words(Number(byDefault))}.`
  throw new OutOfRange(`${source} must be ${range}, and not ${text}. ${remedy}`)
}

function readDuration(text: string): number {
  const ms = parseDuration(text)
  if (ms === null || ms > MAX_DURATION_MS) throw new SettingsError(`${text} is no duration`)
  return ms
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
