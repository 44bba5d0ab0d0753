/** Every setting, said once: its key, how it is read, its default, and what it is for. Its flag and its variable follow from the key. */
import { MAX_DURATION_MS, MIN_SHARED_LIMIT_MS, parseDuration } from '@curfew/core'

export class SettingsError extends Error {}

export type Value = string | number | boolean | null

export interface Setting {
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
    help: 'directory of the data file; :memory: keeps the data in memory only, lost on exit',
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
    help: 'bearer token with the role admin, in addition to stored tokens (none)',
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
    help: 'names of members hidden from the board and from tokens with the role read: password,card (none)',
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
    help: 'refuse a field whose name is close to a known one (jobs, cron entries, workflows), instead of warning',
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
    help: 'enable endpoints for conformance tests; not for production',
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
  duration('limits.defaults.grace-period', '30s', 'time to stop, before an attempt is ended', 'limits', 0),
  duration('limits.defaults.heartbeat-timeout', '60s', 'silence after which an attempt is stalled', 'limits'),
  duration('limits.defaults.visibility-timeout', '30m', 'length of a reservation without a sign of life', 'limits'),
  duration('limits.defaults.total-timeout', null, 'the whole life of a job (none)', 'limits'),
  duration('limits.defaults.enqueue-ttl', null, 'waiting before the first start (none)', 'limits'),
  {
    key: 'limits.defaults.on-timeout',
    kind: 'choice',
    choices: ['retry', 'discard'],
    byDefault: 'retry',
    help: 'what happens to a job whose attempt times out',
    group: 'limits',
  },
  duration('limits.caps.timeout', null, 'longest timeout of an attempt', 'limits'),
  duration('limits.caps.grace-period', null, 'longest grace period', 'limits', 0),
  duration('limits.caps.heartbeat-timeout', null, 'longest heartbeat timeout of an attempt', 'limits'),
  duration('limits.caps.visibility-timeout', null, 'longest reservation', 'limits'),
  duration('limits.caps.total-timeout', null, 'longest life of a job', 'limits'),
  duration('limits.caps.enqueue-ttl', null, 'longest wait before the first start', 'limits'),
  {
    ...duration('limits.run.default', '1d', 'longest duration of a run whose definition sets none', 'limits'),
    flag: '--run-default',
  },
  { ...duration('limits.run.cap', '7d', 'longest duration of any run', 'limits'), flag: '--run-cap' },
  {
    key: 'expressions.isolation',
    kind: 'choice',
    choices: ['in-process', 'thread'],
    byDefault: 'in-process',
    help: 'thread: evaluate in a separate thread, for definitions from untrusted authors',
    group: 'expressions',
  },
  duration('expressions.max-eval', '50ms', 'longest time of one evaluation', 'expressions', 5),
  whole('expressions.max-output-bytes', 1_048_576, 'largest result of one evaluation, in bytes', 'expressions', 1_024),
  duration('workers.heartbeat-interval', '5s', 'interval at which workers send heartbeats', 'workers'),
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
    help: 'apply the heartbeat timeout also to workers that never registered or sent a heartbeat',
    group: 'workers',
  },
  retention('retention.completed', '7d', 'completed jobs'),
  retention('retention.cancelled', '7d', 'cancelled jobs'),
  retention('retention.discarded', '30d', 'discarded jobs'),
  retention('retention.dead-letter', '180d', 'dead letters'),
  whole('retention.dead-letter-max', 10_000, 'number of dead letters kept', 'retention'),
  retention('retention.events', '7d', 'events'),
  whole('retention.events-max', 1_000_000, 'number of events kept', 'retention'),
]

export const flagOf = ({ key, flag }: Pick<Setting, 'key' | 'flag'>): string => flag ?? `--${key.replaceAll('.', '-')}`
export const envOf = ({ key }: Pick<Setting, 'key'>): string => `CURFEW_${key.replaceAll(/[.-]/g, '_').toUpperCase()}`

export function readDuration(text: string): number {
  const ms = parseDuration(text)
  if (ms === null || ms > MAX_DURATION_MS) throw new SettingsError(`${text} is not a valid duration`)
  return ms
}
