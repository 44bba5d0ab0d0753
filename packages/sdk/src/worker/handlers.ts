/** What a worker can do: for each type of job a handler, with its limits and the walls it runs within. */
import type { AnyHandlerFunction } from '../attempt/define-handler.ts'
import { defineJob, type AnyJob } from '../job/define-job.ts'
import { InputError } from '../errors.ts'
import type { Isolation } from '../isolate/protocol.ts'
import { handlerLimits, type AttemptLimits } from '../job/limits.ts'
import { moduleFile } from './module-file.ts'

export interface HandlerOptions extends AttemptLimits {
  /** `inline` (the default) can only be asked to stop; `thread` and `process` can be killed, and need `module`. */
  readonly isolation?: 'inline' | Isolation
  /** `manual`: only `ctx.heartbeat()`, progress and checkpoints prove that the handler lives. */
  readonly heartbeat?: 'auto' | 'manual'
  /**
   * The handler's module, as `new URL('./transcode.ts', import.meta.url)`; JavaScript or TypeScript. When that file is
   * missing, its counterpart (`./transcode.js`) is taken: the same name works before and after compilation.
   */
  readonly module?: URL | string
  /** The name of the export in `module`; `default` unless told. */
  readonly exportName?: string
  /** Megabytes the isolate may use. */
  readonly memory?: number
}

export interface Registered {
  readonly job: AnyJob
  readonly limits: AttemptLimits
  /** The limits as registration carries them. */
  readonly wire: Readonly<Record<string, number | string>>
  readonly isManual: boolean
  readonly run: AnyHandlerFunction | null
  readonly isolation: 'inline' | Isolation
  readonly module: string | null
  readonly exportName: string
  readonly memoryMb: number | null
}

export function makeHandler(
  jobOrType: AnyJob | string,
  options: HandlerOptions,
  run: AnyHandlerFunction | null,
  defaults: AttemptLimits,
): Registered {
  const job: AnyJob = typeof jobOrType === 'string' ? defineJob(jobOrType) : jobOrType
  const { isolation = 'inline', heartbeat = 'auto', module, exportName = 'default', memory } = options
  if (!['inline', 'thread', 'process'].includes(isolation))
    throw new InputError(`isolation must be 'inline', 'thread' or 'process'.`, { field: 'isolation', type: job.type })
  if ((run === null) === (module === undefined)) {
    throw new InputError(`The handler of ${job.type} is either a function or a module: give one of them.`, {
      field: 'module',
      type: job.type,
    })
  }
  if (isolation !== 'inline' && module === undefined) {
    throw new InputError(
      `The handler of ${job.type} cannot run in a ${isolation} as a function: a function does not cross into another ` +
        `${isolation}. Put it into a module of its own and give { module: new URL('./handler.ts', import.meta.url) }.`,
      { field: 'module', type: job.type },
    )
  }
  if (memory !== undefined && isolation === 'inline')
    throw new InputError('memory needs isolation: a handler in the worker itself shares its memory.', {
      field: 'memory',
      type: job.type,
    })
  const limits = { ...defaults, ...attemptLimits(options) }
  return {
    job,
    limits,
    wire: handlerLimits(job.type, { ...defaults, ...limitsIn(options) }),
    isManual: heartbeat === 'manual',
    run,
    isolation,
    module: module === undefined ? null : moduleFile(module),
    exportName,
    memoryMb: memory ?? null,
  }
}

/** The limits among the options. A total that does not belong here is among them, and is refused later with its reason. */
function limitsIn(options: HandlerOptions): AttemptLimits {
  const { isolation: _i, heartbeat: _h, module: _m, exportName: _e, memory: _y, ...limits } = options
  return limits
}

function attemptLimits({ timeout, gracePeriod, heartbeatTimeout, onTimeout }: HandlerOptions): AttemptLimits {
  return {
    ...(timeout === undefined ? {} : { timeout }),
    ...(gracePeriod === undefined ? {} : { gracePeriod }),
    ...(heartbeatTimeout === undefined ? {} : { heartbeatTimeout }),
    ...(onTimeout === undefined ? {} : { onTimeout }),
  }
}
