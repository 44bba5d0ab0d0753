/**
 * Reads a definition, from plain JSON to `journey/definition.ts`, and tells everything that is wrong with it at once. What cannot be
 * known here (whether an expression parses, whether a schema is one) is asked of the caller; where in a text a pointer
 * points is left to the caller, who has the text.
 */
import { instant, seconds, type Millis } from '../../time/clock.ts'
import { runBudget } from '../../time/budget.ts'
import { Field, Findings, isDeeperThan, SHAPE, type Diagnostic, type Mapping } from '../../diagnostics.ts'
import { JOURNEY_KINDS, type Definition, type Expression, type JourneyKind, type Resilience } from '../definition.ts'
import { readConfig } from '../config.ts'
import { checkGraphs } from './graph.ts'
import { readApis, type FindOpenApi } from './operations.ts'
import { readAuthPolicies } from '../auth.ts'
import { readBindings, readMetadataBindings } from './bindings.ts'
import { readHeaders, readPolicy, readPolicyName, readReason, readTimeout } from './http.ts'
import { failure } from '../run/life.ts'
import { checkSchedules } from './schedule.ts'
import { readGraph } from './states.ts'
import {
  checkId,
  readExpression,
  readMapper,
  readPredicate,
  readProjection,
  readSchema,
  type Reading,
} from './reading.ts'
import type { Data } from '../run/run.ts'
import { endedDocument, OUTCOME_MEMBERS, problemOf } from '../view/view.ts'
import { MAX_BRANCHES } from '../limits.ts'
import { MAX_JSON_DEPTH } from '../../wire/json/json-text.ts'

export type { Diagnostic, FindOpenApi }

/** What is wrong with an expression: its language, or its text. */
export interface ExpressionProblem {
  readonly of: 'lang' | 'expr'
  readonly message: string
}

export interface DefinitionChecks {
  expression(expression: Expression): Promise<ExpressionProblem | null>
  /** What an expression gives for a sample; undefined where it fails. Without it nothing is tried. */
  evaluate?(expression: Expression, document: Data): Promise<unknown>
  /** Why a schema is none; a place in it comes first, as a JSON pointer. */
  schema(schema: unknown): string | null
  /** Where definitions may name files: finds an OpenAPI document. */
  readonly openApi?: FindOpenApi | undefined
  /** It was deployed before: rules that are newer than that do not take it away. */
  readonly isDeployed?: boolean
  /** What a run may take if its author says nothing, and at most. */
  readonly limits: { readonly defaultMs: Millis; readonly capMs: Millis }
}

export interface ReadDefinition {
  /** Null as long as there are errors, unless it is deployed already. */
  readonly definition: Definition | null
  readonly errors: readonly Diagnostic[]
  readonly warnings: readonly Diagnostic[]
}

const SPEC = (
  'execution lifecycle defaults input output mappers errors outcomes policies apis compensation bindings metadata ' +
  'httpSurface start states subjourneys platform'
).split(' ')
const NOT_HERE = ['cookies', 'access', 'security', 'context']
const MAX_TAGS = 10
const MAX_TAG_LENGTH = 40
/** Whatever it is, the server's cap holds; only sums must come out right. */
const MAX_SECONDS = Math.floor(Number.MAX_SAFE_INTEGER / 1000)

export async function readDefinition(value: unknown, checks: DefinitionChecks): Promise<ReadDefinition> {
  const found = new Findings()
  const root = new Field(value, '', 'The definition', found)
  if (isDeeperThan(value, MAX_JSON_DEPTH)) {
    root.error(SHAPE, `The definition is nested deeper than ${String(MAX_JSON_DEPTH)} levels.`)
    return { definition: null, ...found }
  }
  const expressions: Reading['expressions'] = []
  const definition = readRoot(root, checks, expressions)
  for (const { lang, expr, path } of expressions) {
    const problem = await checks.expression({ lang, expr })
    if (problem === null) continue
    const at = problem.of === 'lang' && lang === '' ? path : `${path}/${problem.of}`
    found.error('EXPR-1', at, problem.message)
  }
  await checkEnvelope(definition, checks, found)
  const { errors, warnings } = found
  const isUsable = errors.length === 0 || checks.isDeployed === true
  return { definition: isUsable ? definition : null, errors, warnings }
}

/** Callers tell failures apart by their code. An envelope of the author's own is tried on a failure that has one. */
async function checkEnvelope(definition: Definition | null, checks: DefinitionChecks, found: Findings): Promise<void> {
  if (definition?.envelope.format !== 'custom' || found.errors.length > 0) return
  const made = await checks.evaluate?.(
    definition.envelope.mapper,
    endedDocument({}, SAMPLE_FAILURE, problemOf(null, SAMPLE_FAILURE)),
  )
  if (made === undefined || (JSON.stringify(made) ?? '').includes(SAMPLE_CODE)) return
  found.warn(
    'ERROR-1',
    '/spec/errors/envelope',
    'The envelope leaves out the code of the error (error.code): callers cannot tell a timeout from another failure.',
  )
}

const SAMPLE_CODE = 'SAMPLE_ERROR_CODE'
const SAMPLE_FAILURE = failure('sample', 'Timeout', SAMPLE_CODE, 'a sample')

/** What a run of it may take, in the end. */
export function effectiveBudgetMs(
  { execution }: Pick<Definition, 'execution'>,
  limits: DefinitionChecks['limits'],
): Millis {
  return runBudget(instant(0), execution?.maxDurationMs ?? null, limits, null).limitMs
}

function readRoot(root: Field, checks: DefinitionChecks, expressions: Reading['expressions']): Definition | null {
  const { found } = root
  const top = root.members(['apiVersion', 'kind', 'metadata', 'spec'])
  if (top === null) return null
  top.need('apiVersion')?.oneOf(['v1'])
  const kind = readKind(top.need('kind'))
  const metadata = readMetadata(top.need('metadata'))
  const spec = top.need('spec')?.members(SPEC, { notHere: NOT_HERE }) ?? null
  if (spec === null) return null
  const execution = readExecution(spec.get('execution'), checks)
  const policies = readPolicies(spec)
  const mappers = new Map<string, Expression>()
  for (const [id, field] of spec.get('mappers')?.entries() ?? [])
    mappers.set(id, readExpression({ expressions }, field))
  const reading: Reading = {
    found,
    kind,
    mappers,
    policies: policies.all,
    authPolicies: readAuthPolicies(spec.get('policies')?.mapping()?.get('httpClientAuth') ?? null),
    policyByDefault: policies.byDefault,
    apis: readApis(spec.get('apis'), checks.openApi),
    subjourneys: new Set(spec.get('subjourneys')?.mapping()?.keys()),
    schemaProblem: (schema) => checks.schema(schema),
    budgetMs: effectiveBudgetMs({ execution }, checks.limits),
    expressions,
    maxBranches: checks.isDeployed === true ? Infinity : MAX_BRANCHES,
    graphs: [],
    schedules: [],
    apiKeys: new Map(),
  }
  const lifecycle = readLifecycle(reading, spec.get('lifecycle'))
  const defaults =
    spec.get('defaults')?.members(['http', 'tasks'])?.get('http')?.members(['timeoutMs', 'headers']) ?? null
  const output = spec.get('output')?.members(['schema', 'response']) ?? null
  const graph = readGraph(reading, spec)
  const subjourneys = readSubjourneys(reading, spec.get('subjourneys'))
  const ownBudget = { ...reading, budgetMs: effectiveBudgetMs({ execution: null }, checks.limits) }
  const definition: Definition = {
    ...graph,
    ...metadata,
    ...lifecycle,
    kind,
    execution,
    links: readLinks(spec.get('httpSurface')),
    http: {
      timeoutMs: readTimeout(reading, defaults?.get('timeoutMs') ?? null),
      headers: readHeaders(defaults?.get('headers') ?? null),
    },
    input: readSchema(reading, spec.get('input')?.members(['schema'])?.need('schema') ?? null),
    output: {
      schema: readSchema(reading, output?.get('schema') ?? null),
      response: readProjection(reading, output?.get('response') ?? null, OUTCOME_MEMBERS),
    },
    envelope: readEnvelope(reading, spec.get('errors')),
    outcomes: readOutcomes(reading, spec.get('outcomes')),
    subjourneys,
    compensation: readCompensation(ownBudget, spec.get('compensation')),
    metadata: readMetadataBindings(spec.get('metadata')),
    ...readBindings(reading, spec.get('bindings'), metadata.name),
    config: readConfig(spec.get('platform')),
    apiKeys: [...reading.apiKeys.values()],
  }
  checkGraphs(reading, definition)
  checkSchedules(reading, definition)
  return definition
}

function readKind(field: Field | null): JourneyKind {
  if (field?.value === 'Workflow') {
    field.warn('DEPR-1', 'kind Workflow is deprecated; write Journey.')
    return 'Journey'
  }
  return field?.oneOf(JOURNEY_KINDS) ?? 'Journey'
}

function readMetadata(field: Field | null): Pick<Definition, 'name' | 'version' | 'description' | 'tags'> {
  const metadata = field?.members(['name', 'version', 'description', 'tags']) ?? null
  const name = metadata?.need('name', 'NAME-1')?.text('NAME-1', {
    pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
    most: 63,
    expected: 'a DNS label: lower-case letters, digits and "-", at most 63, no "-" first or last',
  })
  const version = metadata?.need('version')?.text(SHAPE, {
    pattern: /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/,
    expected: 'a version such as 1.0.0',
  })
  const tags = metadata?.get('tags') ?? null
  const list = tags?.list() ?? []
  if (list.length > MAX_TAGS) tags?.refuse(SHAPE, `a list of at most ${String(MAX_TAGS)}`)
  return {
    name: name ?? '',
    version: version ?? '',
    description: metadata?.get('description')?.text(SHAPE, { most: 1_048_576 }) ?? null,
    tags: list.map((entry) => entry.text(SHAPE, { most: MAX_TAG_LENGTH }) ?? ''),
  }
}

function readExecution(field: Field | null, { limits }: DefinitionChecks): Definition['execution'] {
  const execution = field?.members(['maxDurationSec', 'onTimeout'], { code: 'EXEC-1' }) ?? null
  if (execution === null) return null
  const max = execution.need('maxDurationSec', 'EXEC-1')
  const maxDurationSec = max?.whole('EXEC-1', 1, MAX_SECONDS) ?? null
  const onTimeout = execution.need('onTimeout', 'EXEC-1')?.members(['errorCode', 'reason'], { code: 'EXEC-1' }) ?? null
  const ending = {
    errorCode: onTimeout?.need('errorCode', 'EXEC-1')?.text('EXEC-1') ?? '',
    reason: readReason(onTimeout?.need('reason', 'EXEC-1') ?? null, 'EXEC-1'),
  }
  if (maxDurationSec === null) return null
  const capSec = limits.capMs / 1000
  if (maxDurationSec > capSec)
    max?.warn('EXEC-2', `maxDurationSec is above what this server allows; runs get ${String(capSec)} s.`)
  return { maxDurationMs: seconds(maxDurationSec), onTimeout: ending }
}

function readLifecycle({ kind }: Reading, field: Field | null): Pick<Definition, 'startMode' | 'cancellable'> {
  if (kind === 'Api') field?.errorAtKey('KIND-1', 'A definition of kind Api must not have a lifecycle.')
  const lifecycle = field?.members(['startMode', 'cancellable']) ?? null
  return {
    startMode: lifecycle?.get('startMode')?.oneOf(['sync', 'async']) ?? 'sync',
    cancellable: lifecycle?.get('cancellable')?.flag() ?? true,
  }
}

function readPolicies(spec: Mapping): { all: ReadonlyMap<string, Resilience | null>; byDefault: string | null } {
  const known = spec.get('policies')?.members(['httpResilience', 'httpClientAuth']) ?? null
  const resilience = known?.get('httpResilience')?.members(['default', 'definitions']) ?? null
  const all = new Map(
    resilience
      ?.get('definitions')
      ?.entries()
      .map(([id, field]) => [id, readPolicy(field)]),
  )
  const tasks = spec.get('defaults')?.mapping()?.get('tasks')?.members(['resiliencePolicyRef']) ?? null
  const ofTasks = tasks?.get('resiliencePolicyRef') ?? null
  const ofAll = resilience?.get('default') ?? null
  const names = [ofTasks, ofAll].map((ref) => (ref === null ? null : readPolicyName(all, ref)))
  return { all, byDefault: names[0] ?? names[1] ?? null }
}

function readLinks(field: Field | null): boolean {
  const links = field?.members(['links'])?.get('links')?.members(['enabled']) ?? null
  return links?.get('enabled')?.flag() ?? true
}

function readEnvelope(reading: Reading, field: Field | null): Definition['envelope'] {
  const errors = field?.members(['envelope'], { notHere: ['normalisers'] }) ?? null
  const envelope = errors?.get('envelope')?.members(['format', 'mapper', 'mapperRef']) ?? null
  const format = envelope?.get('format')?.oneOf(['problemDetails', 'custom']) ?? 'problemDetails'
  const mapper = envelope === null ? null : readMapper(reading, envelope)
  if (format === 'custom') {
    if (mapper === null) envelope?.at.error('EXPR-1', 'mapper is missing: format custom needs it.')
    return { format, mapper: mapper ?? { lang: '', expr: '' } }
  }
  if (mapper !== null) envelope?.at.error(SHAPE, 'mapper goes with format custom.')
  return { format }
}

function readOutcomes(reading: Reading, field: Field | null): Definition['outcomes'] {
  return (field?.entries() ?? []).map(([id, entry]) => {
    checkId(entry, 'The outcome')
    const when = entry.members(['when'])?.need('when')?.members(['phase', 'predicate']) ?? null
    return {
      id,
      phase: when?.need('phase')?.oneOf(['SUCCEEDED', 'FAILED']) ?? 'FAILED',
      predicate: readPredicate(reading, when),
    }
  })
}

function readSubjourneys(reading: Reading, field: Field | null): Definition['subjourneys'] {
  return Object.fromEntries(
    (field?.entries() ?? []).flatMap(([id, entry]) => {
      const graph = entry.members(['start', 'states'])
      return graph === null ? [] : [[id, readGraph(reading, graph)] as const]
    }),
  )
}

function readCompensation(reading: Reading, field: Field | null): Definition['compensation'] {
  const compensation = field?.members(['mode', 'start', 'states', 'alsoFor']) ?? null
  if (compensation === null) return null
  const mode = compensation.get('mode')
  if (mode?.value === 'sync')
    mode.error('COMP-1', 'mode sync is not supported: an answer would have to wait past its deadline. Write async.')
  else mode?.oneOf(['async'])
  const alsoFor = (compensation.get('alsoFor')?.list() ?? []).map((entry) => {
    const when = entry.members(['when'])?.get('when')?.members(['predicate']) ?? null
    return { predicate: readPredicate(reading, when) }
  })
  return { ...readGraph(reading, compensation), alsoFor }
}
