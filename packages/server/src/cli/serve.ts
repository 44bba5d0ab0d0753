/** `curfew serve`: puts store, engine and door together, says where it listens, and stops in order. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Gauge } from 'prom-client'
import type { Logger } from 'pino'
import { millis, type LimitSettings, type Millis, type TimeoutMode } from '@curfew/core'
import { Engine, manualClock, type EngineSettings } from '../engine/engine.ts'
import { Meters } from '../engine/meters.ts'
import { nodeHost, systemRandom } from '../host.ts'
import { createApp } from '../http/app.ts'
import { listen } from '../http/listen.ts'
import type { Store } from '../store/store.ts'
import { nameOf, openStore, placeOf } from './open-store.ts'
import { SettingsError, type Settings } from './settings.ts'

export interface Serving {
  readonly address: string
  stop(): Promise<void>
}

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/
/** How long open calls may take to finish after SIGTERM. */
const CLOSE_MS = 2_500

export async function serve(settings: Settings, log: Logger, version: string): Promise<Serving> {
  const host = String(settings['host'])
  const token = settings['token'] === null ? null : String(settings['token'])
  const conformance = settings['conformance'] === true
  if (token === '') throw new SettingsError('The token is empty; leave it out or set one.')
  if (token === null && !LOOPBACK.test(host)) {
    throw new SettingsError(
      `Refusing to listen on ${host} without a token: anybody who reaches it could run jobs. Set CURFEW_TOKEN, or listen on 127.0.0.1.`,
    )
  }
  if (settings['clock'] === 'manual' && !conformance)
    throw new SettingsError('--clock manual needs --conformance: it lets any caller turn the clock.')

  const store = await openStore(settings)
  const engine = await openEngine(settings, store, log).catch(async (error: unknown) => {
    await store.close()
    throw error
  })
  const stopWatching = watchEventLoop(engine.meters)
  // As many listeners as there are streams and waits: no leak.
  setMaxListeners(0, engine.closing)
  const handler = createApp({
    engine,
    info: { version, conformance, backend: store.health.kind, pid: process.pid },
    admits: token === null ? null : admitsOnly(token),
  })
  const listener = await listen(handler, nodeHost, host, Number(settings['port'])).catch(async (error: unknown) => {
    await engine.close()
    throw error
  })
  const place = placeOf(settings)
  const shownHost = host.includes(':') ? `[${host}]` : host
  const address = `http://${shownHost}:${String(listener.port)}`
  log.info(
    {
      address,
      data: nameOf(place),
      ...(place.kind === 'file' ? { durability: settings['durability'] } : {}),
      conformance,
      clock: settings['clock'],
    },
    'serving',
  )
  return {
    address,
    async stop() {
      // Polls are answered and streams are ended first: they would hold their connections.
      engine.beginClose()
      await listener.close(CLOSE_MS)
      await engine.close()
      stopWatching()
    },
  }
}

async function openEngine(settings: Settings, store: Store, log: Logger): Promise<Engine> {
  if (await store.isHalfRestored())
    throw new Error(
      `${nameOf(placeOf(settings))} holds only a part of its data: an import into it did not come to its end. Run the import again.`,
    )
  return Engine.open({
    store,
    host: nodeHost,
    random: systemRandom(),
    settings: engineSettings(settings),
    log,
    meters: new Meters(),
    ...(settings['clock'] === 'manual' ? { manualClock: manualClock(nodeHost.wallMs()) } : {}),
  })
}

/** Compares digests, so that neither length nor content shows in the time it takes. */
function admitsOnly(token: string): (authorization: string | undefined) => boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  const expected = digest(token)
  return (authorization) => {
    const given = /^Bearer +(.+)$/i.exec(authorization ?? '')?.[1]
    return given !== undefined && timingSafeEqual(digest(given), expected)
  }
}

function watchEventLoop(meters: Meters): () => void {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  new Gauge({
    name: 'curfew_event_loop_delay_seconds',
    help: 'Delay of the event loop since the last look.',
    labelNames: ['quantile'],
    registers: [meters.registry],
    collect() {
      for (const quantile of [50, 99, 100])
        this.set({ quantile: String(quantile / 100) }, delay.percentile(quantile) / 1e9)
      delay.reset()
    },
  })
  return () => {
    delay.disable()
  }
}

function ms(settings: Settings, key: string): Millis {
  return millis(Number(settings[key]))
}

function optional(settings: Settings, key: string): Millis | null {
  return settings[key] === null ? null : ms(settings, key)
}

function engineSettings(settings: Settings): EngineSettings {
  return {
    limits: limitSettings(settings),
    retention: {
      completedMs: ms(settings, 'retention.completed'),
      cancelledMs: ms(settings, 'retention.cancelled'),
      discardedMs: ms(settings, 'retention.discarded'),
      deadLetterMs: ms(settings, 'retention.dead-letter'),
    },
    deadLetterMax: Number(settings['retention.dead-letter-max']),
    heartbeatIntervalMs: ms(settings, 'workers.heartbeat-interval'),
    workerTimeoutMs: ms(settings, 'workers.heartbeat-timeout'),
    requireOwner: settings['workers.require-owner'] === true,
    conformance: settings['conformance'] === true,
    largestResultBytes: 1_048_576,
    largestCheckpointBytes: 1_048_576,
  }
}

function limitSettings(settings: Settings): LimitSettings {
  const caps: Record<string, Millis> = {}
  const names = {
    timeout: 'timeout',
    grace: 'grace-period',
    heartbeat: 'heartbeat-timeout',
    visibility: 'visibility-timeout',
    total: 'total-timeout',
    ttl: 'enqueue-ttl',
  }
  for (const [name, key] of Object.entries(names)) {
    const cap = optional(settings, `limits.caps.${key}`)
    if (cap !== null) caps[name] = cap
  }
  return {
    defaults: {
      timeout: ms(settings, 'limits.defaults.timeout'),
      grace: ms(settings, 'limits.defaults.grace-period'),
      heartbeat: ms(settings, 'limits.defaults.heartbeat-timeout'),
      visibility: ms(settings, 'limits.defaults.visibility-timeout'),
      total: optional(settings, 'limits.defaults.total-timeout'),
      ttl: optional(settings, 'limits.defaults.enqueue-ttl'),
      onTimeout: settings['limits.defaults.on-timeout'] as TimeoutMode,
    },
    caps,
    judgeUnknownWorkers: settings['workers.judge-unknown'] === true,
  }
}
