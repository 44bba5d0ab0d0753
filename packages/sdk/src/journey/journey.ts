/**
 * A journey as a program says it: the same definition as in YAML, with ids and lengths that the compiler looks at.
 *
 *   const quote = journey('quote', '1.0.0', {
 *     execution: { maxDuration: '2s', onTimeout: { errorCode: 'QUOTE_TIMEOUT', reason: 'no answer in time' } },
 *     start: 'ask',
 *     states: {
 *       ask: state.httpCall({ method: 'GET', url: 'https://pricing.example/quote', resultVar: 'quote', next: 'done' }),
 *       done: state.succeed('quote'),
 *     },
 *   })
 *   await client.journeys.deploy(quote)
 */
import { toMillis, type Duration } from '../durations.ts'
import { expressionOnWire, type ExpressionText } from './journey-expression.ts'
import { said, wholeSeconds, type Graph, type JourneySchema, type States, type Wire } from './journey-states.ts'
import { jsonText } from '../plain-json.ts'

/** A definition as plain JSON, from any source. */
export interface DefinitionJson {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly version: string; readonly [more: string]: unknown }
  readonly spec: Wire
}

/** A journey or an Api by its name, with the types of what goes in and comes out. */
export interface JourneyRef<In = unknown, Out = unknown> {
  readonly name: string
  readonly '~types'?: { readonly input: In; readonly output: Out } | undefined
}

export interface JourneyDefinition<In = unknown, Out = unknown> extends JourneyRef<In, Out> {
  readonly version: string
  toJSON(): DefinitionJson
}

export interface CommonSpec<Ids extends string, In, Out> {
  readonly description?: string
  readonly tags?: readonly string[]
  /** How long a run may take from its acceptance on, and what it says when that is over. */
  readonly execution?: {
    readonly maxDuration: Duration
    readonly onTimeout: { readonly errorCode: string; readonly reason: string }
  }
  readonly defaults?: {
    readonly http: { readonly timeout?: Duration; readonly headers?: Readonly<Record<string, string>> }
  }
  readonly input?: JourneySchema<In>
  readonly output?: JourneySchema<Out>
  /** Members of `context.<outputVar>` that stand at the top of the outcome too. */
  readonly outputResponse?: { readonly outputVar: string; readonly schema?: JourneySchema }
  readonly mappers?: Readonly<Record<string, ExpressionText>>
  readonly errors?: Wire
  readonly outcomes?: Readonly<
    Record<string, { readonly phase: 'SUCCEEDED' | 'FAILED'; readonly predicate?: ExpressionText }>
  >
  readonly resilience?: {
    readonly default?: string
    readonly definitions: Readonly<Record<string, ResiliencePolicy>>
  }
  /** What is done after a run that failed, timed out or was cancelled; a run of its own, with its own time. */
  readonly compensation?: Graph & { readonly alsoFor?: readonly { readonly predicate?: ExpressionText }[] }
  /** OpenAPI documents, for calls by operation. */
  readonly apis?: Readonly<Record<string, Wire>>
  readonly start: NoInfer<Ids>
  readonly states: States<Ids>
  readonly subjourneys?: Readonly<Record<string, Graph>>
}

export interface JourneySpec<Ids extends string, In, Out> extends CommonSpec<Ids, In, Out> {
  readonly lifecycle?: { readonly startMode?: 'sync' | 'async'; readonly cancellable?: boolean }
  /** Where tags and attributes come from. */
  readonly metadata?: Wire
  readonly links?: boolean
  readonly http?: { readonly start?: Wire; readonly steps?: Readonly<Record<string, Wire>> }
}

export interface ApiSpec<Ids extends string, In, Out> extends CommonSpec<Ids, In, Out> {
  readonly http?: {
    readonly route?: { readonly path: string; readonly method: string }
    readonly start?: Wire
    readonly apiResponses?: Wire
  }
}

export interface ResiliencePolicy {
  readonly maxAttempts: number
  readonly retryOn?: readonly ('NETWORK_ERROR' | 'TIMEOUT' | 'HTTP_5XX' | 'HTTP_429')[]
  readonly backoff?: {
    readonly kind?: 'fixed' | 'exponential'
    readonly baseDelay?: Duration
    readonly maxDelay?: Duration
    readonly jitter?: 'none' | 'full'
  }
}

/** A journey: durable, it may wait for people, callbacks, timers and jobs. */
export function journey<Ids extends string, In = unknown, Out = unknown>(
  name: string,
  version: string,
  spec: JourneySpec<Ids, In, Out>,
): JourneyDefinition<In, Out> {
  const { metadata, links, lifecycle } = spec
  return definition('Journey', name, version, spec, {
    lifecycle,
    metadata: metadata === undefined ? undefined : { bindings: metadata },
    httpSurface: links === undefined ? undefined : { links: { enabled: links } },
  })
}

/** An Api: one request, one answer, by the deadline at the latest. */
export function api<Ids extends string, In = unknown, Out = unknown>(
  name: string,
  version: string,
  spec: ApiSpec<Ids, In, Out>,
): JourneyDefinition<In, Out> {
  return definition('Api', name, version, spec, {})
}

/** States of a branch, a subjourney or a compensation. */
export function graph<Ids extends string>(start: NoInfer<Ids>, states: States<Ids>): Graph {
  return { start, states }
}

/** A JSON Schema and the type of what fits it: `schema<{ orderId: string }>({ type: 'object', … })`. */
export function schema<T = unknown>(json: Wire | boolean): JourneySchema<T> {
  return json
}

/** A definition that was written elsewhere, with its types: `journeyRef<{ orderId: string }, Order>('orders')`. */
export function journeyRef<In = unknown, Out = unknown>(name: string): JourneyRef<In, Out> {
  return { name }
}

function definition<In, Out>(
  kind: 'Journey' | 'Api',
  name: string,
  version: string,
  spec: CommonSpec<string, In, Out> & { readonly http?: Wire },
  own: Wire,
): JourneyDefinition<In, Out> {
  const { description, tags } = spec
  const whole = {
    apiVersion: 'v1',
    kind,
    metadata: said({ name, version, description, tags }),
    spec: said({ ...commonOnWire(spec), ...own }),
  }
  // Copied: what is deployed is what was checked here, whatever becomes of the parts.
  const text = jsonText(whole, `The definition of ${name}`)
  return { name, version, toJSON: () => JSON.parse(text) as DefinitionJson }
}

function commonOnWire<In, Out>(spec: CommonSpec<string, In, Out> & { readonly http?: Wire }): Wire {
  const { execution, defaults, input, output, outputResponse, mappers, outcomes, compensation } = spec
  const { http, resilience, errors, apis, start, states, subjourneys } = spec
  return {
    execution: execution && {
      maxDurationSec: wholeSeconds(execution.maxDuration, 'maxDuration'),
      onTimeout: execution.onTimeout,
    },
    defaults: defaults && { http: httpDefaults(defaults.http) },
    input: input === undefined ? undefined : { schema: input },
    output:
      output === undefined && outputResponse === undefined
        ? undefined
        : said({ schema: output, response: outputResponse }),
    mappers: mappers && mapped(mappers, expressionOnWire),
    errors,
    outcomes:
      outcomes &&
      mapped(outcomes, ({ phase, predicate }) => ({
        when: said({ phase, predicate: predicate && expressionOnWire(predicate) }),
      })),
    policies: resilience && {
      httpResilience: said({ default: resilience.default, definitions: mapped(resilience.definitions, policyOnWire) }),
    },
    compensation: compensation && compensationOnWire(compensation),
    bindings: http && { http: said(http) },
    apis,
    start,
    states,
    subjourneys,
  }
}

function httpDefaults({
  timeout,
  headers,
}: NonNullable<CommonSpec<string, unknown, unknown>['defaults']>['http']): Wire {
  return said({ timeoutMs: timeout === undefined ? undefined : toMillis(timeout, 'defaults.http.timeout'), headers })
}

function policyOnWire({ maxAttempts, retryOn, backoff }: ResiliencePolicy): Wire {
  const { kind, baseDelay, maxDelay, jitter } = backoff ?? {}
  const told = said({
    kind,
    baseDelayMs: baseDelay === undefined ? undefined : toMillis(baseDelay, 'backoff.baseDelay'),
    maxDelayMs: maxDelay === undefined ? undefined : toMillis(maxDelay, 'backoff.maxDelay'),
    jitter,
  })
  return said({ maxAttempts, retryOn, backoff: backoff === undefined ? undefined : told })
}

function compensationOnWire(given: NonNullable<CommonSpec<string, unknown, unknown>['compensation']>): Wire {
  const alsoFor = given.alsoFor?.map(({ predicate }) => ({
    when: said({ predicate: predicate && expressionOnWire(predicate) }),
  }))
  return said({ mode: 'async', start: given.start, alsoFor, states: given.states })
}

function mapped<T>(record: Readonly<Record<string, T>>, change: (value: T) => Wire): Wire {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]))
}
