/**
 * The states of a journey, one call each, under the names they have in YAML. Lengths are written as everywhere in this
 * package ('30s'); a definition counts some of them in whole seconds, and what is not whole is refused here.
 *
 * `Next` collects the ids a state leads to, so that the graph around it can ask whether it has them.
 */
import { formatIsoDuration } from '@curfew/core'
import type { AnyJob } from '../job/define-job.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import { expressionOnWire, ExpressionText, mapperOnWire, type Mapper } from './journey-expression.ts'
import { retryOnWire, type RetryPolicy } from '../job/retry.ts'

export type Wire = Readonly<Record<string, unknown>>

declare const leadsTo: unique symbol

/** A state as it goes onto the wire. */
export type JourneyState<Next extends string = string> = Wire & { readonly [leadsTo]?: Next }

export type States<Ids extends string> = Readonly<Record<Ids, JourneyState<NoInfer<Ids>>>>

/** States that know only each other: a branch, a subjourney, a compensation. Made by `graph`. */
export interface Graph {
  readonly start: string
  readonly states: Readonly<Record<string, Wire>>
}

declare const describes: unique symbol

/** A JSON Schema (2020-12), with the type of what fits it. Made by `schema`. */
export type JourneySchema<T = unknown> = (Wire | boolean) & { readonly [describes]?: T }

interface To<Next extends string> {
  readonly next: Next
}

/** Where a value goes: `context.<resultVar>`, a path of the context, the run's attributes; else it is the context. */
export type Placed =
  | { readonly resultVar: string; readonly path?: undefined; readonly attributes?: undefined }
  | { readonly path: string; readonly resultVar?: undefined; readonly attributes?: undefined }
  | { readonly attributes: true; readonly resultVar?: undefined; readonly path?: undefined }
  | { readonly resultVar?: undefined; readonly path?: undefined; readonly attributes?: undefined }

/** Who is called: an address, or an operation of one of the definition's `apis`. */
export type CallTarget =
  | {
      readonly method: string
      /** Absolute, with `${context.a.b}` in it (in a plain text, not in a template). */
      readonly url: string
      readonly operationRef?: undefined
    }
  | { readonly operationRef: string; readonly method?: undefined; readonly url?: undefined }

type Texts = Readonly<Record<string, string>>

export type HttpCallOptions<Next extends string> = To<Next> & CallTarget & CallOptions

interface CallOptions {
  readonly headers?: Texts
  readonly params?: { readonly path?: Texts; readonly query?: Texts; readonly headers?: Texts }
  readonly accept?: string
  /** JSON whose texts are filled in, or an expression. */
  readonly body?: unknown
  readonly timeout?: Duration
  /** `notify`: sent, and not waited for. */
  readonly mode?: 'requestResponse' | 'notify'
  readonly resultVar?: string
  readonly resiliencePolicyRef?: string
  /** What is kept of an answer that is not ok. */
  readonly errorMapping?: { readonly mapper: Mapper } & Placed
}

export interface JobStateOptions<Next extends string> extends To<Next> {
  /** As workers know it, or as `defineJob` gave it. */
  readonly type: string | AnyJob
  readonly queue?: string
  readonly priority?: number
  /** The list of arguments, or an expression that gives it. */
  readonly args?: readonly unknown[] | Mapper
  readonly timeout?: Duration
  readonly totalTimeout?: Duration
  readonly gracePeriod?: Duration
  readonly timeoutMode?: 'retry' | 'discard'
  readonly retry?: RetryPolicy
  /** `await` unless set: the run goes on when the job is over. */
  readonly mode?: 'await' | 'notify'
  /** Not bound to the run's deadline; with `notify` only. */
  readonly detach?: boolean
  readonly resultVar?: string
}

export type StepOptions<Next extends string> = To<Next> & {
  /** What a submission must look like. */
  readonly input: JourneySchema
  readonly response?: { readonly outputVar: string; readonly schema?: JourneySchema }
} & (
    | { readonly timeout: Duration; readonly onTimeout: Next }
    | { readonly timeout?: undefined; readonly onTimeout?: undefined }
  )

export type TimerOptions<Next extends string> = To<Next> &
  (
    | { readonly duration: Duration | ExpressionText; readonly until?: undefined }
    | { readonly until: Date | string | ExpressionText; readonly duration?: undefined }
  )

export interface ParallelOptions<Next extends string> extends To<Next> {
  /** By name; each works on a copy of the context of its own. */
  readonly branches: Readonly<Record<string, Graph>>
  readonly strategy: 'allOf' | 'anyOf' | 'firstCompleted'
  readonly errorPolicy?: 'collectAll' | 'failFast' | 'ignoreErrors'
  readonly mapper?: Mapper
  readonly resultVar?: string
}

export interface SubjourneyOptions<Next extends string> extends To<Next> {
  readonly ref: string
  readonly input?: Mapper
  readonly resultVar?: string
  readonly resultKind?: 'output' | 'outcome'
  readonly onFailure?: 'propagate' | 'capture'
}

export const state = {
  /** Makes an HTTP call. Its outcome, failures included, is stored at `resultVar`, and `next` is taken. */
  httpCall<const Next extends string>(options: HttpCallOptions<Next>): JourneyState<Next> {
    const { next, timeout, body, errorMapping, ...rest } = options
    const mapping = errorMapping === undefined ? undefined : { when: 'nonOk', ...placed(errorMapping) }
    const timeoutMs = timeout === undefined ? undefined : toMillis(timeout, 'timeout')
    const told = body instanceof ExpressionText ? mapperOnWire(body) : body
    return task({ kind: 'httpCall:v1', ...rest, body: told, timeoutMs, errorMapping: mapping }, next)
  },

  /** Hands a job to the workers, with what is left of the run's time as its own. */
  job<const Next extends string>(options: JobStateOptions<Next>): JourneyState<Next> {
    const { next, type, args, timeout, totalTimeout, gracePeriod, retry, queue, ...rest } = options
    const kind = typeof type === 'string' ? { type, options: {} } : type
    const told = {
      kind: 'job:v1',
      type: kind.type,
      queue: queue ?? kind.options.queue,
      ...rest,
      args: args === undefined || isList(args) ? args : mapperOnWire(args),
      timeoutSec: wholeSeconds(timeout, 'timeout'),
      totalTimeoutSec: wholeSeconds(totalTimeout, 'totalTimeout'),
      gracePeriodSec: wholeSeconds(gracePeriod, 'gracePeriod'),
      retry: retry === undefined ? undefined : retryOnWire(retry),
    }
    return task(told, next)
  },

  /** Goes where the first predicate that is true points, else to `otherwise`. */
  choice<const Next extends string>(
    choices: readonly { readonly when: ExpressionText; readonly next: Next }[],
    otherwise?: Next,
  ): JourneyState<Next> {
    const told = choices.map(({ when, next }) => ({ when: { predicate: expressionOnWire(when) }, next }))
    return said({ type: 'choice', choices: told, default: otherwise })
  },

  transform<const Next extends string>(options: To<Next> & { readonly mapper: Mapper } & Placed): JourneyState<Next> {
    const { next, ...rest } = options
    return said({ type: 'transform', transform: placed(rest), next })
  },

  /** Open until it is submitted. */
  wait<const Next extends string>(options: StepOptions<Next>): JourneyState<Next> {
    return said({ type: 'wait', wait: { channel: 'manual', ...step(options) }, next: options.next })
  },

  /** The same, for a callback from outside. */
  webhook<const Next extends string>(options: StepOptions<Next>): JourneyState<Next> {
    return said({ type: 'webhook', webhook: step(options), next: options.next })
  },

  timer<const Next extends string>({ next, duration, until }: TimerOptions<Next>): JourneyState<Next> {
    const timer = duration === undefined ? { until: untilOnWire(until) } : { duration: durationOnWire(duration) }
    return said({ type: 'timer', timer, next })
  },

  parallel<const Next extends string>(options: ParallelOptions<Next>): JourneyState<Next> {
    const { next, branches, strategy, errorPolicy, mapper, resultVar } = options
    const join = said({ strategy, errorPolicy, ...(mapper === undefined ? {} : mapperOnWire(mapper)), resultVar })
    const named = Object.entries(branches).map(([name, graph]) => ({ name, ...graph }))
    return said({ type: 'parallel', parallel: { branches: named, join }, next })
  },

  /** A graph of the definition's `subjourneys`, with a context of its own and the run's deadline. */
  subjourney<const Next extends string>(options: SubjourneyOptions<Next>): JourneyState<Next> {
    const { next, input, onFailure, ...rest } = options
    const told = {
      ...rest,
      input: input === undefined ? undefined : mapperOnWire(input),
      onFailure: onFailure === undefined ? undefined : { behavior: onFailure },
    }
    return said({ type: 'subjourney', subjourney: said(told), next })
  },

  /** The run has succeeded, with `context.<outputVar>` as its output; without one, with all of the context. */
  succeed(outputVar?: string): JourneyState<never> {
    return said({ type: 'succeed', outputVar })
  },

  fail(errorCode: string, reason: string): JourneyState<never> {
    return { type: 'fail', errorCode, reason }
  },
}

function task(told: Wire, next: string): JourneyState<never> {
  return { type: 'task', task: said(told), next }
}

function placed({ mapper, resultVar, path, attributes }: { readonly mapper: Mapper } & Placed): Wire {
  const kind = attributes === true ? 'attributes' : resultVar === undefined ? 'context' : 'var'
  return said({ ...mapperOnWire(mapper), target: said({ kind, path }), resultVar })
}

function step<Next extends string>({ input, response, timeout, onTimeout }: StepOptions<Next>): Wire {
  return said({ input: { schema: input }, response, timeoutSec: wholeSeconds(timeout, 'timeout'), onTimeout })
}

/** ISO 8601 as it stands; '30s' as `PT30S`. */
function durationOnWire(duration: Duration | ExpressionText): unknown {
  if (duration instanceof ExpressionText) return mapperOnWire(duration)
  const ms = toMillis(duration, 'duration')
  return typeof duration === 'string' && duration.startsWith('P') ? duration : formatIsoDuration(ms)
}

function untilOnWire(until: Date | string | ExpressionText): unknown {
  if (until instanceof ExpressionText) return mapperOnWire(until)
  return until instanceof Date ? until.toISOString() : until
}

const isList = (args: readonly unknown[] | Mapper): args is readonly unknown[] => Array.isArray(args)

export function wholeSeconds(duration: Duration | undefined, name: string): number | undefined {
  if (duration === undefined) return undefined
  const ms = toMillis(duration, name)
  if (ms % 1000 !== 0 || ms === 0)
    throw new InputError(`${name} must be whole seconds here, at least one.`, { field: name })
  return ms / 1000
}

/** Without what was not said. */
export function said<T extends Wire>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}
