/** Journeys on the server: deploy definitions, start runs, look, submit, wait, cancel. */
import type { RunExplanation } from '@curfew/core'
import type { Call, Connection } from './connection.ts'
import { toMillis, type Duration } from '../durations.ts'
import { parentOnWire, type ParentRef } from '../job/enqueue-options.ts'
import { InputError, InvalidDefinitionError, JourneyFailedError } from '../errors.ts'
import type { DefinitionJson, JourneyDefinition, JourneyRef } from '../journey/journey.ts'
import type {
  DefinitionHead,
  DeployedDefinition,
  JourneyOutcome,
  JourneyStatus,
  RunHistory,
  RunningJourney,
  StartedJourney,
  StoredDefinition,
  ValidatedDefinition,
} from '../wire/journeys.ts'
import { get, part, type Signalled } from './operators.ts'
import { jsonText } from '../plain-json.ts'
import { isFine, isRecord } from './refusal.ts'
import { untilOver, type WaitOptions } from './result.ts'

/** A run by its id, or as `start` gave it. */
export type RunRef<Out = unknown> = string | RunningJourney<Out> | JourneyOutcome<Out> | { readonly journeyId: string }

/** What goes with a request besides its body: a definition may take some of it into its context. */
export interface RequestParts extends Signalled {
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
}

export interface StartOptions extends RequestParts {
  /** The version in force unless given. */
  readonly version?: string
  /** Whom the run belongs to; a handler may give its context. */
  readonly parent?: ParentRef
  /** End no later than the parent. */
  readonly inheritDeadline?: boolean
  /** One run for all starts with this key: 1 to 255 printable ASCII characters, such as a UUID. */
  readonly idempotencyKey?: string
  /** The id that the run is to have, a UUIDv7 in lower case: one run for all starts with it. The input must be an object. */
  readonly id?: string
  /** How long to wait for the answer to a start that waits for the run: 5 minutes unless set. The run goes on. */
  readonly timeout?: Duration
}

export interface JourneyFilter extends Signalled {
  readonly journeyName?: string
  readonly phase?: JourneyStatus['phase']
  readonly tag?: string
  readonly subjectId?: string
  readonly tenantId?: string
}

/** A definition as a program, as JSON, or as text in YAML or JSON. */
export type AnyDefinition = JourneyDefinition | DefinitionJson | string

interface Ports {
  readonly connection: Connection
  readonly opened: <T>(run: () => Promise<T>) => Promise<T>
  readonly closing: AbortSignal
}

/** What follows the journey in a start: its input may be left out when nothing is known of it. */
export type StartArguments<In> = unknown extends In
  ? [input?: unknown, options?: StartOptions]
  : [input: In, options?: StartOptions]

const RUNS = '/api/v1/journeys'
const DEFINITIONS = '/api/v1/definitions'
const START_TIMEOUT: Duration = '5m'

export class Journeys {
  readonly #ports: Ports

  constructor(ports: Ports) {
    this.#ports = ports
  }

  // ---- Definitions ----

  /** Puts a definition in force. Throws an InvalidDefinitionError that lists all that is wrong with it. */
  deploy(definition: JourneyDefinition | DefinitionJson, options?: Signalled): Promise<DeployedDefinition>
  deploy(name: string, text: string, options?: Signalled): Promise<DeployedDefinition>
  deploy(
    first: JourneyDefinition | DefinitionJson | string,
    second: string | Signalled = {},
    third: Signalled = {},
  ): Promise<DeployedDefinition> {
    const { connection, opened } = this.#ports
    return opened(async () => {
      const [name, given] = typeof first === 'string' ? [first, second as string] : [nameOf(first), first]
      const { signal } = typeof second === 'string' ? third : second
      const path = `${DEFINITIONS}/${part(name)}`
      const answer = await connection.send({ method: 'PUT', path, ...textOf(given), idempotent: true, signal })
      if (isFine(answer.status)) return connection.read<DeployedDefinition>(answer)
      const refusal = connection.refusal(answer)
      throw answer.status === 422 ? new InvalidDefinitionError(name, refusal) : refusal
    })
  }

  /** What a deploy would say to it. Nothing is stored. */
  validate(definition: AnyDefinition, { signal }: Signalled = {}): Promise<ValidatedDefinition> {
    const { connection, opened } = this.#ports
    const path = `${DEFINITIONS}:validate`
    return opened(() =>
      connection.call<ValidatedDefinition>({ method: 'POST', path, ...textOf(definition), idempotent: true, signal }),
    )
  }

  /** As it was deployed, with the versions there are. */
  definition(name: string, options: Signalled = {}): Promise<StoredDefinition> {
    const { connection, opened } = this.#ports
    return opened(() => get<StoredDefinition>(connection, `${DEFINITIONS}/${part(name)}`, options))
  }

  /** What is in force, by name, fetched by and by. */
  definitions(options: Signalled = {}): AsyncGenerator<DefinitionHead, void, undefined> {
    return this.#pages<DefinitionHead>(DEFINITIONS, options, {})
  }

  // ---- Runs ----

  /**
   * Starts a run. The run that is returned is still running, or over if the definition starts synchronously. With
   * `idempotencyKey` or `id` it is repeated when no answer comes; without them it is not: the run may have begun.
   */
  start<In, Out>(
    journey: JourneyRef<In, Out> | string,
    ...[input, options = {}]: StartArguments<NoInfer<In>>
  ): Promise<StartedJourney<Out>> {
    const { connection, opened } = this.#ports
    return opened(async () => {
      const name = typeof journey === 'string' ? journey : journey.name
      const answer = await connection.call<
        JourneyOutcome<Out> | JourneyStatus | { journeyId: string; journeyName: string }
      >({
        method: 'POST',
        path: `${RUNS}/${part(name)}/start`,
        json: inputText(name, input, options),
        query: { ...options.query, version: options.version, ...parentInQuery(options) },
        idempotent: options.idempotencyKey !== undefined || options.id !== undefined,
        timeoutMs: toMillis(options.timeout ?? START_TIMEOUT, 'timeout'),
        ...partsOf(options),
        ...keyIn(options),
      })
      if (isOutcome<Out>(answer)) return answer
      const { journeyId, journeyName } = answer
      return { phase: 'RUNNING', journeyId, journeyName, status: isStatus(answer) ? answer : null }
    })
  }

  status(run: RunRef, options: Signalled = {}): Promise<JourneyStatus> {
    return this.#ports.opened(() => get<JourneyStatus>(this.#ports.connection, pathOf(run), options))
  }

  /**
   * How the run ended, as soon as it has. Throws a JourneyFailedError when it failed, timed out or was cancelled, and a
   * DeadlineError (kind `budget`) when the timeout is up first.
   */
  result<Out = unknown>(run: RunRef<Out>, options: WaitOptions = {}): Promise<JourneyOutcome<Out>> {
    const { connection, opened, closing } = this.#ports
    return opened(async () => {
      const path = pathOf(run)
      const read = (body: unknown): JourneyOutcome<Out> | JourneyStatus => body as JourneyStatus
      const ending = {
        askPath: `${path}/result`,
        lookPath: path,
        readAsked: read,
        readLooked: read,
        isNotYet: (status: number) => status === 409,
        isOver: ({ phase }: { phase: string }) => phase !== 'RUNNING',
      }
      const seen = await untilOver(connection, ending, options, closing, 'journeys.result')
      const outcome = isOutcome<Out>(seen)
        ? seen
        : await get<JourneyOutcome<Out>>(connection, `${path}/result`, options)
      if (outcome.phase === 'FAILED') throw new JourneyFailedError(outcome)
      return outcome
    })
  }

  /** Starts a run and returns its output. Also waits for a journey that waits for input. */
  async run<In, Out>(
    journey: JourneyRef<In, Out> | string,
    ...[input, options = {}]: StartArguments<NoInfer<In>>
  ): Promise<Out> {
    const { signal } = options
    const args = [input, options] as unknown as StartArguments<NoInfer<In>>
    const started = await this.start<In, Out>(journey, ...args)
    if (started.phase === 'FAILED') throw new JourneyFailedError(started)
    if (started.phase === 'SUCCEEDED') return started.output
    return (await this.result<Out>(started, signal === undefined ? {} : { signal })).output
  }

  /** Submits an open step. Answers when nothing is under way any more. */
  submit(run: RunRef, step: string, payload: unknown, options: RequestParts = {}): Promise<JourneyStatus> {
    const { connection, opened } = this.#ports
    return opened(() =>
      connection.call<JourneyStatus>({
        method: 'POST',
        path: `${pathOf(run)}/steps/${part(step)}`,
        json: jsonText(payload, `The submission of ${step}`),
        query: options.query ?? {},
        idempotent: false,
        timeoutMs: toMillis(START_TIMEOUT, 'timeout'),
        ...partsOf(options),
      }),
    )
  }

  /** Ends the run as cancelled; one that is over stays as it ended. */
  cancel(run: RunRef, { signal }: Signalled = {}): Promise<JourneyStatus> {
    const { connection, opened } = this.#ports
    const call = { method: 'POST', path: `${pathOf(run)}/steps/cancel`, idempotent: true, signal } as const
    return opened(() => connection.call<JourneyStatus>(call))
  }

  /** Where the time of the run went. */
  explain(run: RunRef, options: Signalled = {}): Promise<RunExplanation> {
    return this.#ports.opened(() => get<RunExplanation>(this.#ports.connection, `${pathOf(run)}/explain`, options))
  }

  /** What the run did, step by step. */
  history(run: RunRef, options: Signalled = {}): Promise<RunHistory> {
    return this.#ports.opened(() => get<RunHistory>(this.#ports.connection, `${pathOf(run)}/history`, options))
  }

  /** Newest first, fetched by and by. */
  list(filter: JourneyFilter = {}): AsyncGenerator<JourneyStatus, void, undefined> {
    const { signal: _, ...wanted } = filter
    return this.#pages<JourneyStatus>(RUNS, filter, wanted)
  }

  async *#pages<T>(
    path: string,
    options: Signalled,
    wanted: NonNullable<Call['query']>,
  ): AsyncGenerator<T, void, undefined> {
    const { connection, opened } = this.#ports
    for (let pageToken: string | undefined; ;) {
      const query = { ...wanted, pageToken }
      const { items, nextPageToken } = await opened(() =>
        get<{ items: T[]; nextPageToken?: string | null }>(connection, path, options, query),
      )
      yield* items
      pageToken = nextPageToken ?? undefined
      if (pageToken === undefined) return
    }
  }
}

function nameOf(definition: JourneyDefinition | DefinitionJson): string {
  return 'metadata' in definition ? definition.metadata.name : definition.name
}

function textOf(definition: AnyDefinition): Pick<Call, 'json' | 'headers'> {
  if (typeof definition === 'string') return { json: definition, headers: { 'content-type': 'application/yaml' } }
  const json = 'metadata' in definition ? definition : definition.toJSON()
  return { json: jsonText(json, `The definition of ${nameOf(definition)}`) }
}

function partsOf({ headers, signal }: RequestParts): Pick<Call, 'headers' | 'signal'> {
  return { ...(headers === undefined ? {} : { headers }), signal }
}

/** The server reads the id of the run from the body, and leaves it out of the context. */
function inputText(name: string, input: unknown, { id }: StartOptions): string {
  if (id === undefined) return input === undefined ? '{}' : jsonText(input, `The input of ${name}`)
  if (input !== undefined && !isRecord(input))
    throw new InputError(`The input of ${name} must be an object where the run is given an id.`, { field: 'id' })
  return jsonText({ ...input, x_journey_id: id }, `The input of ${name}`)
}

function keyIn({ headers, idempotencyKey }: StartOptions): Pick<Call, 'headers'> {
  return idempotencyKey === undefined ? {} : { headers: { ...headers, 'Idempotency-Key': idempotencyKey } }
}

function parentInQuery({ parent, inheritDeadline }: StartOptions): NonNullable<Call['query']> {
  if (inheritDeadline === true && parent === undefined)
    throw new InputError('inheritDeadline needs a parent to inherit from.', { field: 'inheritDeadline' })
  if (parent === undefined) return {}
  return { x_parent: JSON.stringify(parentOnWire(parent)), x_inherit_deadline: inheritDeadline }
}

function isOutcome<Out>(answer: object): answer is JourneyOutcome<Out> {
  return 'terminationKind' in answer
}

function isStatus(answer: object): answer is JourneyStatus {
  return 'currentState' in answer
}

function pathOf(run: RunRef): string {
  return `${RUNS}/${part(typeof run === 'string' ? run : run.journeyId)}`
}
