/** The settings as the engine takes them. */
import { millis, type LimitSettings, type Millis, type TimeoutMode } from '@curfew/core'
import type { EngineSettings } from './engine/kernel/context.ts'
import type { ExpressionSettings } from './expressions/open-expressions.ts'
import { readPlatformConfig } from './platform-config.ts'
import type { Settings } from './settings.ts'

function ms(settings: Settings, key: string): Millis {
  return millis(Number(settings[key]))
}

function optional(settings: Settings, key: string): Millis | null {
  return settings[key] === null ? null : ms(settings, key)
}

export function engineSettings(settings: Settings): EngineSettings {
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
    allowPrivateNetwork: settings['allow-private-network'] === true,
    platformConfig: readPlatformConfig(settings['platform-config'] ?? null),
    strict: settings['strict'] === true,
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
    run: { defaultMs: ms(settings, 'limits.run.default'), capMs: ms(settings, 'limits.run.cap') },
    judgeUnknownWorkers: settings['workers.judge-unknown'] === true,
  }
}

export function expressionSettings(settings: Settings): ExpressionSettings {
  return {
    isolation: settings['expressions.isolation'] === 'thread' ? 'thread' : 'in-process',
    maxEvalMs: ms(settings, 'expressions.max-eval'),
    maxOutputBytes: Number(settings['expressions.max-output-bytes']),
  }
}
