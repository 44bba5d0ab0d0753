/**
 * What the text of a definition is worth: a definition, or everything that is wrong with it, at line and column. Nothing
 * here needs a server: the command line judges in the same way.
 */
import {
  readDefinition,
  schemaProblem,
  type Definition,
  type DefinitionChecks,
  type Diagnostic,
  type ExpressionProblem,
} from '@curfew/core'
import { isSource, readSource, type Located, type Pause } from './source.ts'
import { ExpressionError, type Expressions } from '../expressions.ts'

export interface Verdict {
  readonly definition: Definition | null
  /** As it was written, as JSON. */
  readonly source: unknown
  /** In the order of the text. */
  readonly errors: readonly Located[]
  readonly warnings: readonly Located[]
  /** For what is found wrong later. */
  readonly locate: (diagnostic: Diagnostic) => Located
}

/** As `judge`, in a thread, where it delays no other work. */
export type JudgeBeside = (text: string, limits: DefinitionChecks['limits']) => Promise<Verdict>

/** Reads the document of a deployed version, likewise. Null: it cannot be read. */
export type ReadBeside = (body: string, limits: DefinitionChecks['limits']) => Promise<Definition | null>

export async function judge(text: string, checks: DefinitionChecks, pause: Pause): Promise<Verdict> {
  const source = await readSource(text, pause)
  if (!isSource(source)) return { definition: null, source: null, errors: source, warnings: [], locate: atTop }
  const { definition, errors, warnings } = await readDefinition(source.value, politely(checks, pause))
  const { value, locate } = source
  return {
    definition,
    source: value,
    errors: inOrder(errors.map(locate)),
    warnings: inOrder(warnings.map(locate)),
    locate,
  }
}

/** With what else is wrong, where it is to be used. */
export function alsoWrong(verdict: Verdict, found: readonly Diagnostic[]): Verdict {
  if (found.length === 0) return verdict
  return { ...verdict, definition: null, errors: inOrder([...verdict.errors, ...found.map(verdict.locate)]) }
}

const inOrder = (list: readonly Located[]): Located[] =>
  [...list].sort((a, b) => a.line - b.line || a.column - b.column)

const atTop = ({ code, path, message }: Diagnostic): Located => ({ code, path, line: 1, column: 1, message })

/** Expressions are parsed on the spot; a definition may have thousands of them. */
function politely(checks: DefinitionChecks, pause: Pause): DefinitionChecks {
  let checked = 0
  return {
    ...checks,
    expression: async (expression) => {
      checked += 1
      if (checked % EXPRESSIONS_A_TURN === 0) await pause()
      return checks.expression(expression)
    },
  }
}

const EXPRESSIONS_A_TURN = 20
/** For an expression that is tried on a sample. */
const SAMPLE_MS = 100

export function checksWith(expressions: Expressions, limits: DefinitionChecks['limits']): DefinitionChecks {
  return {
    limits,
    schema: schemaProblem,
    evaluate: async ({ lang, expr }, document) => {
      try {
        return await expressions.evaluate(lang, expr, document, { budgetMs: SAMPLE_MS })
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        return undefined
      }
    },
    expression: async ({ lang, expr }): Promise<ExpressionProblem | null> => {
      try {
        await expressions.check(lang, expr)
        return null
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        return { of: error.code === 'JN_CONFIG_INVALID' ? 'lang' : 'expr', message: error.message }
      }
    },
  }
}

/** For one that was judged when it was deployed: its expressions and schemas are not looked at again. */
export const trusting = (limits: DefinitionChecks['limits']): DefinitionChecks => ({
  expression: () => Promise.resolve(null),
  schema: () => null,
  limits,
  isDeployed: true,
})
