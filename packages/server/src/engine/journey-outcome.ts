/**
 * What an ended run comes to for those who asked for it: the outcome of a journey, with the name its definition has for
 * such an end; or the answer of an Api, with the status its rules choose. All of it is asked after the end, and changes
 * nothing about it: a rule whose expression fails does not match.
 */
import {
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
import { ExpressionError, type Expressions } from './expressions.ts'

/** For one expression; the expressions' own limit is shorter as a rule. */
const EVALUATION = { budgetMs: 1_000 }

/** A definition that is no longer there shows nothing of its own. */
export async function outcomeOf(
  expressions: Expressions,
  run: Run,
  end: End,
  definition: Definition | null,
): Promise<Data> {
  // A compensation has states and a budget; everything else in the definition is about the run it cleans up after.
  const own = run.kind === 'Compensation' ? null : definition
  const outcomeId = own === null ? null : await classify(expressions, run, end, own)
  const outcome = outcomeView(run, end, outcomeId, definition?.links ?? true)
  return project(outcome, OUTCOME_MEMBERS, run.root.context, own?.output.response ?? null)
}

/** The first name whose phase fits and whose predicate holds. */
async function classify(
  expressions: Expressions,
  { root }: Pick<Run, 'root'>,
  end: End,
  { outcomes }: Definition,
): Promise<string | null> {
  const document = documentOf(root.context, end, end.error)
  for (const { id, phase, predicate } of outcomes) {
    if (phase === end.phase && (await holds(expressions, predicate, document))) return id
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
  expressions: Expressions,
  { id, context }: { readonly id: string | null; readonly context: Data },
  end: End,
  definition: Definition,
): Promise<ApiAnswer> {
  if (end.phase === 'SUCCEEDED') {
    const status = await statusOf(expressions, definition, documentOf(context, end, null), end, null)
    return { status, body: end.output ?? null, isProblem: false }
  }
  const plain = problemOf(id, end)
  const status = await statusOf(expressions, definition, documentOf(context, end, plain), end, plain)
  const problem = { ...plain, status }
  const { envelope } = definition
  if (envelope.format === 'problemDetails') return { status, body: problem, isProblem: true }
  try {
    const { lang, expr } = envelope.mapper
    const body = await expressions.evaluate(lang, expr, documentOf(context, end, problem), EVALUATION)
    return { status, body, isProblem: false }
  } catch (error) {
    // Callers are better served by another shape than by no answer.
    if (!(error instanceof ExpressionError)) throw error
    return { status, body: problem, isProblem: true }
  }
}

/** The first rule that matches, or else the default of the phase. */
async function statusOf(
  expressions: Expressions,
  { apiResponses }: Definition,
  document: Data,
  { phase }: End,
  problem: Problem | null,
): Promise<number> {
  for (const { phase: wanted, errorType, predicate, status } of apiResponses?.rules ?? []) {
    if (wanted !== phase || (errorType !== null && errorType !== problem?.type)) continue
    if (!(await holds(expressions, predicate, document))) continue
    const made = typeof status === 'number' ? status : await valueOf(expressions, status, document)
    if (isStatus(made)) return made
  }
  if (problem === null) return apiResponses?.succeeded ?? 200
  return apiResponses?.failed ?? problem.status
}

/** One that ends an exchange; those below 200 only announce another. */
const isStatus = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 200 && value <= 599

/** What expressions see of a run that is over. */
function documentOf(context: Data, end: End, error: unknown): Data {
  const { phase, terminationKind, terminatedAtState, output } = end
  return {
    context,
    payload: context['payload'] ?? null,
    error,
    platform: {},
    output,
    outcome: { phase, terminationKind, terminatedAtState, output, error: end.error },
  }
}

async function holds(expressions: Expressions, predicate: Expression | null, document: Data): Promise<boolean> {
  return predicate === null || (await valueOf(expressions, predicate, document)) === true
}

/** Undefined where it cannot be had. */
async function valueOf(expressions: Expressions, { lang, expr }: Expression, document: Data): Promise<unknown> {
  try {
    return await expressions.evaluate(lang, expr, document, EVALUATION)
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return undefined
  }
}
