/**
 * What every part of a definition needs while it is read: the mappers and policies that others refer to, the graph whose
 * states are being read, and the lists of what can be judged only when all is known (expressions, targets, lengths).
 */
import type { Millis } from '../../time/clock.ts'
import { SHAPE, type Field, type Findings, type Mapping } from '../../diagnostics.ts'
import type {
  ApiKeyCheck,
  DataSchema,
  Expression,
  JourneyKind,
  Resilience,
  State,
  StateId,
  Target,
} from '../definition.ts'
import type { AuthPolicies } from '../auth.ts'
import type { OpenApis } from './operations.ts'

export interface Reading {
  readonly found: Findings
  readonly kind: JourneyKind
  readonly mappers: ReadonlyMap<string, Expression>
  readonly policies: ReadonlyMap<string, Resilience | null>
  readonly authPolicies: AuthPolicies
  /** The policy of calls that name none. */
  readonly policyByDefault: string | null
  readonly apis: OpenApis
  readonly subjourneys: ReadonlySet<string>
  /** Why a schema is none, or null. */
  readonly schemaProblem: (schema: unknown) => string | null
  /** What a run of this graph may take. */
  readonly budgetMs: Millis
  /** To be checked once all has been read. */
  readonly expressions: { readonly lang: string; readonly expr: string; readonly path: string }[]
  /** Of one parallel state. */
  readonly maxBranches: number
  readonly graphs: GraphReading[]
  /** Where scheduled runs begin. */
  readonly schedules: { readonly start: StateId; readonly path: string }[]
  readonly apiKeys: Map<string, Pick<ApiKeyCheck, 'profile' | 'source'>>
}

/** A graph, with the places of what was read: its rules are in `journey/read/graph.ts`. */
export interface GraphReading {
  /** The pointer to what holds `start` and `states`. */
  readonly path: string
  readonly start: StateId
  /** All that were written, those that could not be read included. */
  readonly ids: ReadonlySet<StateId>
  readonly states: ReadonlyMap<StateId, State>
  readonly targets: readonly { readonly id: StateId; readonly path: string; readonly what: string }[]
}

/** Notes where a state leads, to be looked up when all states of its graph are known. */
export type Leads = (field: Field | null) => StateId

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const STATE_ID = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const DOT_PATH = /^[^\s.[\]]+(\.[^\s.[\]]+)*$/

/** The name of a member of the context. */
export function readVariable(field: Field | null): string | null {
  return (
    field?.text('NAME-1', { pattern: NAME, most: 128, expected: 'a name: letters, digits and "_", no digit first' }) ??
    null
  )
}

export function checkId(field: Field, what: string): void {
  if (STATE_ID.test(field.name)) return
  field.errorAtKey(
    'NAME-1',
    `${what} ${JSON.stringify(field.name)} must be made of letters, digits, "_", "." and "-", at most 128 of them.`,
  )
}

export function readDotPath(field: Field): readonly string[] | null {
  const text = field.text(SHAPE, { pattern: DOT_PATH, most: 512, expected: 'names joined by dots, without indexes' })
  return text?.split('.') ?? null
}

/** `{lang, expr}`. */
export function readExpression(reading: Pick<Reading, 'expressions'>, field: Field | null): Expression {
  const mapping = field?.members(['lang', 'expr'], { code: 'EXPR-1' }) ?? null
  if (mapping === null) return NOTHING
  const lang = mapping.get('lang')
  const expr = mapping.need('expr', 'EXPR-1')?.text('EXPR-1', { expected: 'the text of the expression' }) ?? null
  if (lang !== null && typeof lang.value !== 'string') lang.text('EXPR-1', { expected: 'the name of an engine' })
  else if (expr !== null) reading.expressions.push({ lang: (lang?.value ?? '') as string, expr, path: mapping.at.path })
  return { lang: typeof lang?.value === 'string' ? lang.value : '', expr: expr ?? '' }
}

const NOTHING: Expression = { lang: '', expr: '' }

/** `mapper: {lang, expr}` or `mapperRef: id` among the members of something; null: neither. */
export function readMapper(reading: Reading, of: Mapping): Expression | null {
  const [mapper, ref] = [of.get('mapper'), of.get('mapperRef')]
  if (mapper !== null && ref !== null) {
    ref.errorAtKey('EXPR-1', 'Give mapper or mapperRef, not both.')
    return NOTHING
  }
  if (mapper !== null) return readExpression(reading, mapper)
  const id = ref?.text('EXPR-1') ?? null
  if (ref === null || id === null) return ref === null ? null : NOTHING
  const known = reading.mappers.get(id)
  if (known === undefined) ref.error('EXPR-1', `There is no mapper ${JSON.stringify(id)} in spec.mappers.`)
  return known ?? NOTHING
}

export function needMapper(reading: Reading, of: Mapping): Expression {
  const mapper = readMapper(reading, of)
  if (mapper === null) of.at.error('EXPR-1', 'mapper is missing: give mapper {lang, expr}, or mapperRef.')
  return mapper ?? NOTHING
}

/** True of a value that says how it is made: `{mapper: …}` or `{mapperRef: …}`. */
export function isMapped(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const keys = Object.keys(value)
  return keys.length > 0 && keys.every((key) => key === 'mapper' || key === 'mapperRef')
}

/** `when: {predicate: {lang, expr}}`, of what may also have other conditions. */
export function readPredicate(reading: Reading, when: Mapping | null): Expression | null {
  const predicate = when?.get('predicate') ?? null
  return predicate === null ? null : readExpression(reading, predicate)
}

export function readSchema(reading: Reading, field: Field | null): DataSchema | null {
  if (field === null) return null
  const problem = reading.schemaProblem(field.value)
  if (problem === null) return field.value as DataSchema
  const [place = ''] = /^\/\S*(?= )/.exec(problem) ?? []
  reading.found.error('SCHEMA-1', `${field.path}${place}`, `Not a schema: ${problem}.`)
  return null
}

/** What is shown besides the members an answer has anyway. */
export function readProjection(reading: Reading, field: Field | null, reserved: readonly string[]) {
  const mapping = field?.members(['outputVar', 'schema']) ?? null
  if (mapping === null) return null
  const outputVar = readVariable(mapping.need('outputVar'))
  const schema = readSchema(reading, mapping.get('schema'))
  const properties = mapping.get('schema')?.mapping('SCHEMA-1')?.get('properties') ?? null
  for (const [name, property] of properties?.entries('SCHEMA-1') ?? []) {
    if (reserved.includes(name))
      property.errorAtKey('SCHEMA-1', `${name} is a member that every answer has; choose another name.`)
  }
  return { outputVar, schema }
}

/** `target` and `resultVar`, beside each other. */
export function readTarget(of: Mapping, kinds: readonly ('context' | 'var' | 'attributes')[]): Target {
  const resultVar = readVariable(of.get('resultVar'))
  const target = of.get('target')?.members(['kind', 'path']) ?? null
  const kind = target?.get('kind')?.oneOf(kinds) ?? (of.has('resultVar') ? 'var' : 'context')
  const pathField = target?.get('path') ?? null
  // Written by people who mean "no path".
  const path = pathField === null || pathField.value === '' ? [] : (readDotPath(pathField) ?? [])
  if (kind !== 'context' && path.length > 0) pathField?.errorAtKey(SHAPE, `path goes with kind context, not ${kind}.`)
  if (kind === 'attributes') {
    of.get('resultVar')?.errorAtKey(SHAPE, 'resultVar does not go with kind attributes.')
    return { kind }
  }
  if (kind === 'var') {
    if (!of.has('resultVar')) of.at.error(SHAPE, 'resultVar is missing: kind var needs the name of the variable.')
    return { kind, name: resultVar ?? '' }
  }
  if (resultVar === null) return { kind, path }
  if (path.length > 0) of.get('resultVar')?.errorAtKey(SHAPE, 'Give target.path or resultVar, not both.')
  return { kind: 'var', name: resultVar }
}

/** A length that is as long as the whole run has no effect of its own. */
export function warnIfNeverReached(reading: Reading, field: Field, ms: number | null): void {
  if (ms === null || ms < reading.budgetMs) return
  field.warn(
    'EXEC-3',
    `${field.name} is not shorter than the whole run may take (${String(reading.budgetMs / 1000)} s): the run ends first.`,
  )
}
