/**
 * What the caller of an ended run gets: the outcome of a journey, with the name its definition has for
 * such an end; or the answer of an Api, with the status its rules choose. All of it is asked after the end, and changes
 * nothing about it: a rule whose expression fails does not match.
 */
import {
  configFor,
  endedDocument,
  isApiStatus,
  OUTCOME_MEMBERS,
  outcomeView,
  problemOf,
  project,
  type Data,
  type Definition,
  type End,
  type Expression,
  type Problem,
  type Run,
} from '@curfew/core'
import type { EngineSettings } from '../kernel/context.ts'
import { ExpressionError, type Expressions } from '../expressions.ts'

/** For one expression; the expressions' own limit is shorter as a rule. */
const EVALUATION = { budgetMs: 1_000 }

/** Who answers what expressions ask. */
export interface Asking {
  readonly expressions: Expressions
  readonly settings: Pick<EngineSettings, 'platformConfig'>
}

const configOf = ({ settings }: Asking, { config }: Definition): Data => configFor(config, settings.platformConfig)

/** A definition that is no longer there shows nothing of its own. */
export async function outcomeOf(asking: Asking, run: Run, end: End, definition: Definition | null): Promise<Data> {
  // A compensation has states and a budget; everything else in the definition is about the run it cleans up after.
  const own = run.kind === 'Compensation' ? null : definition
  const outcomeId = own === null ? null : await classify(asking, run, end, own)
  const outcome = outcomeView(run, end, outcomeId, definition?.links ?? true)
  return project(outcome, OUTCOME_MEMBERS, run.root.context, own?.output.response ?? null)
}

/** The first name whose phase fits and whose predicate holds. */
async function classify(
  asking: Asking,
  { root }: Pick<Run, 'root'>,
  end: End,
  definition: Definition,
): Promise<string | null> {
  const document = endedDocument(root.context, end, end.error, configOf(asking, definition))
  for (const { id, phase, predicate } of definition.outcomes) {
    if (phase === end.phase && (await holds(asking, predicate, document))) return id
  }
  return null
}

export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
  /** Problem details (RFC 9457); otherwise plain JSON. */
  readonly isProblem: boolean
}

export async function apiAnswer(
  asking: Asking,
  { id, context }: { readonly id: string | null; readonly context: Data },
  end: End,
  definition: Definition,
): Promise<ApiAnswer> {
  const config = configOf(asking, definition)
  if (end.phase === 'SUCCEEDED') {
    const status = await statusOf(asking, definition, endedDocument(context, end, null, config), end, null)
    return { status, body: end.output ?? null, isProblem: false }
  }
  const plain = problemOf(id, end)
  const status = await statusOf(asking, definition, endedDocument(context, end, plain, config), end, plain)
  const problem = { ...plain, status }
  const { envelope } = definition
  if (envelope.format === 'problemDetails') return { status, body: problem, isProblem: true }
  try {
    const { lang, expr } = envelope.mapper
    const body = await asking.expressions.evaluate(lang, expr, endedDocument(context, end, problem, config), EVALUATION)
    return { status, body, isProblem: false }
  } catch (error) {
    // Callers are better served by another shape than by no answer.
    if (!(error instanceof ExpressionError)) throw error
    return { status, body: problem, isProblem: true }
  }
}

/** The first rule that matches, or else the default of the phase. */
async function statusOf(
  asking: Asking,
  { apiResponses }: Definition,
  document: Data,
  { phase }: End,
  problem: Problem | null,
): Promise<number> {
  for (const { phase: wanted, errorType, predicate, status } of apiResponses?.rules ?? []) {
    if (wanted !== phase || (errorType !== null && errorType !== problem?.type)) continue
    if (!(await holds(asking, predicate, document))) continue
    const made = typeof status === 'number' ? status : await valueOf(asking, status, document)
    if (isApiStatus(phase, made)) return made
  }
  const succeeded = apiResponses?.succeeded
  if (problem === null) return isApiStatus('SUCCEEDED', succeeded) ? succeeded : 200
  const failed = apiResponses?.failed
  // A definition that was deployed by an older server may have any.
  return isApiStatus('FAILED', failed) ? failed : problem.status
}

async function holds(asking: Asking, predicate: Expression | null, document: Data): Promise<boolean> {
  return predicate === null || (await valueOf(asking, predicate, document)) === true
}

/** Undefined where it cannot be had. */
async function valueOf(asking: Asking, { lang, expr }: Expression, document: Data): Promise<unknown> {
  try {
    return await asking.expressions.evaluate(lang, expr, document, EVALUATION)
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return undefined
  }
}
