/**
 * The whole server as one value: store, engine and door put together. An application embeds it with `openServer`; the
 * command line opens it from its own settings. It hears no signals, writes nothing to stdout, and reads neither argv nor
 * the environment.
 */
import { setMaxListeners } from 'node:events'
import { pino } from 'pino'
import { Gauge } from 'prom-client'
import { formatDuration, millis, Redaction, shortHeartbeat, type Host, type Random } from '@curfew/core'
import { engineSettings, expressionSettings } from './engine-settings.ts'
import { openApiKeys } from './api-keys.ts'
import { Access, MAX_TOKEN_LENGTH } from './engine/access/access.ts'
import type { ApiKeys } from './engine/api-keys.ts'
import type { Secrets } from './engine/journeys/call-auth.ts'
import { Engine } from './engine/engine.ts'
import { manualClock } from './engine/kernel/kernel.ts'
import type { Log } from './engine/kernel/context.ts'
import { Meters } from './engine/metrics/meters.ts'
import type { Send } from './engine/outgoing.ts'
import { judgeInThreads, readInThreads } from './definitions/judge-thread.ts'
import { openExpressions } from './expressions/open-expressions.ts'
import { loopUtilization, newHistogram, nodeHost, nodeStopwatch, systemRandom } from './host.ts'
import { LoopDelay } from './loop-delay.ts'
import { createApp } from './http/api/app.ts'
import { listen, type Listener } from './http/transport/listen.ts'
import { ALIASED_MEDIA, type Handler } from './http/api/message.ts'
import { readAllowedHosts } from './http/api/origin.ts'
import { openHttpClient } from './net/http-client.ts'
import { nameOf, openStore, openToOthers, placeOf } from './open-store.ts'
import { openSecrets } from './secrets.ts'
import { SettingsError, settingsFrom, type Settings } from './settings.ts'
import type { Store } from './store/store.ts'
import { openTlsFiles } from './tls-files.ts'
import { openTracing } from './tracing.ts'
import { VERSION } from './version.ts'

export interface ServerOptions {
  /** The folder of the data file, made if it is not there; `:memory:` for a store that is gone with the server. */
  readonly data?: string
  /** `postgres://…`, instead of `data`. */
  readonly database?: string
  /** Callers must send it as their bearer token. */
  readonly token?: string
  /** Warnings and errors go to stderr as JSON, if it is left out. */
  readonly log?: Log
  /** What calls of journeys are made with, by name; beside the setting `secrets-file`, over which it wins. */
  readonly secrets?: Readonly<Record<string, string>>
  /** By the keys of the configuration file, such as `'limits.defaults.timeout': '10m'`. Unknown ones are errors. */
  readonly settings?: Readonly<Record<string, string | number | boolean | null>>
  /** Clocks and timers; the machine's, if it is left out. Everything that is decided is decided by these. */
  readonly host?: Host
  readonly random?: Random
  /** What the server calls its version. */
  readonly version?: string
}

export interface Address {
  /** 127.0.0.1, if it is left out. Anything but loopback needs a token. */
  readonly host?: string
  /** Any free one, if it is left out. */
  readonly port?: number
}

export interface CurfewServer {
  /** The whole API, without sockets. */
  readonly handler: Handler
  /** Opens a socket in front of the handler. */
  listen(at?: Address): Promise<{ readonly address: string }>
  /**
   * For how many milliseconds nothing but housekeeping will happen by itself, as far as is known now. The test kit asks, to
   * turn its clock past such a time at once.
   */
  idleMs(): Promise<number>
  /** Ends waits and streams, finishes what is under way, closes the store. */
  close(): Promise<void>
}

export async function openServer(options: ServerOptions = {}): Promise<CurfewServer> {
  const { data, database, token, settings = {}, ...parts } = options
  return serverOn(settingsFrom({ 'log-level': 'warn', ...settings, ...given({ data, database, token }) }), parts)
}

const given = (fields: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined))

/** How long open calls may take to finish when the server closes. */
const CLOSE_MS = 2_500

export async function serverOn(
  settings: Settings,
  { log = quietLog(settings), host, random = systemRandom(), version = VERSION, secrets = {} }: Parts,
): Promise<CurfewServer> {
  const conformance = settings['conformance'] === true
  const token = settings['token'] ?? null
  if (token === '') throw new SettingsError('The token is empty; leave it out or set one.')
  if (token !== null && String(token).length > MAX_TOKEN_LENGTH)
    throw new SettingsError(`The token must not be longer than ${String(MAX_TOKEN_LENGTH)} characters.`)
  if (settings['clock'] === 'manual' && !conformance)
    throw new SettingsError('--clock manual needs --conformance: it lets any caller turn the clock.')
  const allowedHosts = allowedHostsIn(settings)
  const redaction = redactionIn(settings)
  const maxConnections = Number(settings['max-connections'])
  if (maxConnections < 1) throw new SettingsError('--max-connections must be at least 1.')
  const certificate = openTlsFiles(textOf(settings, 'tls-cert'), textOf(settings, 'tls-key'), log, nodeHost)
  const hasClock = host !== undefined || settings['clock'] === 'manual'
  const known = openSecrets({
    given: secrets,
    file: textOf(settings, 'secrets-file'),
    log,
    host: nodeHost,
  })
  const apiKeys = openApiKeys(textOf(settings, 'api-keys-file'), known)
  const store = await openStore(settings, { hasClock })
  const http = openHttpClient({ allowPrivateNetwork: settings['allow-private-network'] === true })
  const engine = await openEngine(
    settings,
    store,
    { log, host: host ?? nodeHost, random },
    { send: http.send, secrets: known, apiKeys },
  ).catch(async (error: unknown) => {
    http.close()
    await store.close()
    throw error
  })
  const access = await Access.open(engine, { token: token === null ? null : String(token) }).catch(
    async (error: unknown) => {
      await engine.close()
      http.close()
      throw error
    },
  )
  const exposed = openToOthers(settings)
  if (exposed !== null) log.warn({}, exposed)
  warnOfShortSilence(settings, log)
  warnOfShortHeartbeat(settings, log)
  const stopWatching = host === undefined ? measureDelay(engine.meters) : () => {}
  // As many listeners as there are streams and waits: no leak.
  setMaxListeners(0, engine.closing)
  const handler = createApp({
    engine,
    info: { version, conformance, backend: store.health.kind, pid: process.pid },
    access,
    isTls: certificate !== null,
    allowedHosts,
    redaction,
    ...(settings['media-alias'] === true ? { media: ALIASED_MEDIA } : {}),
  })
  const listeners: Listener[] = []
  const close = async (): Promise<void> => {
    // Polls are answered and streams are ended first: they would hold their connections.
    engine.beginClose()
    await Promise.all(listeners.map((listener) => listener.close(CLOSE_MS)))
    await access.close()
    await engine.close()
    http.close()
    stopWatching()
  }
  let closed: Promise<void> | null = null
  return {
    handler,
    async listen({ host: name = '127.0.0.1', port = 0 } = {}) {
      mayListen(name, !access.isOpen)
      const listener = await listen(handler, nodeHost, name, port, {
        maxConnections,
        log,
        ...(certificate === null ? {} : { certificate }),
      })
      listeners.push(listener)
      return {
        address: `${certificate === null ? 'http' : 'https'}://${name.includes(':') ? `[${name}]` : name}:${String(listener.port)}`,
      }
    },
    idleMs: () => engine.idleMs(),
    close: () => (closed ??= close()),
  }
}

type Parts = Pick<ServerOptions, 'log' | 'host' | 'random' | 'version' | 'secrets'>

function textOf(settings: Settings, key: string): string | null {
  const value = settings[key] ?? null
  return value === null || value === '' ? null : String(value)
}

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/

/** A server that other machines reach needs a token: its callers can run jobs. */
export function mayListen(host: string, hasToken: boolean): void {
  // Node would listen on every address.
  if (host === '') throw new SettingsError('The host is empty; leave it out or name an address such as 127.0.0.1.')
  if (LOOPBACK.test(host) || hasToken) return
  throw new SettingsError(
    `Refusing to listen on ${host} without a token: anyone who can reach it could run jobs. Set CURFEW_TOKEN, or listen on 127.0.0.1.`,
  )
}

function allowedHostsIn(settings: Settings): readonly string[] {
  const { hosts, bad } = readAllowedHosts(String(settings['allowed-hosts'] ?? ''))
  if (bad === null) return hosts
  throw new SettingsError(
    `--allowed-hosts holds ${JSON.stringify(bad)}, which is not a host name. Give names without scheme and port, such as curfew.example, or .example.com for all names below it.`,
  )
}

/** Without these no list and no job could be shown. */
const STRUCTURE = new Set('id type queue state job jobs items events data error errors pagination limits'.split(' '))

/** Names of members, separated by commas. */
function redactionIn(settings: Settings): Redaction | null {
  const names = (textOf(settings, 'board-redact') ?? '').split(',').flatMap((name) => name.trim() || [])
  const needed = names.find((name) => STRUCTURE.has(name.toLowerCase()))
  if (needed !== undefined)
    throw new SettingsError(
      `--board-redact names ${JSON.stringify(needed)}, which the board needs. Name members of arguments, results and errors, such as password, or args, result and message for all of them.`,
    )
  return names.length === 0 ? null : new Redaction(names)
}

/** Who beats as often as he is asked to must not be declared dead between two beats. */
function warnOfShortSilence(settings: Settings, log: Log): void {
  const interval = Number(settings['workers.heartbeat-interval'])
  const timeout = Number(settings['workers.heartbeat-timeout'])
  if (timeout > interval) return
  log.warn(
    { interval: formatDuration(interval), timeout: formatDuration(timeout) },
    'workers.heartbeat-timeout is not longer than workers.heartbeat-interval: workers that beat as they are asked to will be declared dead between two beats; make the timeout at least three intervals',
  )
}

/** The same for the stall clock that judges a job without limits of its own: its default, or the cap on all of them. */
function warnOfShortHeartbeat(settings: Settings, log: Log): void {
  const intervalMs = millis(Number(settings['workers.heartbeat-interval']))
  for (const key of ['limits.defaults.heartbeat-timeout', 'limits.caps.heartbeat-timeout']) {
    if ((settings[key] ?? null) === null) continue
    const ms = millis(Number(settings[key]))
    const warning = shortHeartbeat(key, ms, 'a setting of the server', intervalMs)
    if (warning !== null) log.warn({ interval: formatDuration(intervalMs), timeout: formatDuration(ms) }, warning)
  }
}

async function openEngine(
  settings: Settings,
  store: Store,
  { log, host, random }: Required<Pick<Parts, 'log' | 'host' | 'random'>>,
  outside: { readonly send: Send; readonly secrets: Secrets; readonly apiKeys: ApiKeys },
): Promise<Engine> {
  if (await store.isHalfRestored())
    throw new Error(
      `${nameOf(placeOf(settings))} holds only a part of its data: an import into it did not come to its end. Run the import again.`,
    )
  return Engine.open({
    store,
    host,
    random,
    settings: engineSettings(settings),
    log,
    meters: new Meters(),
    ...outside,
    trace: await openTracing(),
    judgeBeside: judgeInThreads(),
    readBeside: readInThreads(),
    ...(host === nodeHost ? { stopwatch: nodeStopwatch } : {}),
    expressions: (clock) => openExpressions({ host, clock, random }, expressionSettings(settings)),
    ...(settings['clock'] === 'manual' ? { manualClock: manualClock(host.wallMs()) } : {}),
  })
}

function quietLog(settings: Settings): Log {
  const options = { level: String(settings['log-level']), base: { pid: process.pid } }
  return pino(options, pino.destination({ dest: 2, sync: true }))
}

function measureDelay({ registry }: Meters): () => void {
  const delay = new LoopDelay(nodeHost, newHistogram(), loopUtilization())
  new Gauge({
    name: 'curfew_event_loop_delay_seconds',
    help: 'Delay of the event loop since the last look.',
    labelNames: ['quantile'],
    registers: [registry],
    collect() {
      for (const quantile of [0.5, 0.99, 1]) this.set({ quantile: String(quantile) }, delay.seconds(quantile))
      delay.reset()
    },
  })
  return () => {
    delay.stop()
  }
}
