/** What commands on definitions use besides the context of all commands. */
import type { Expressions } from '../expressions.ts'
import type { Context } from '../kernel/context.ts'
import type { Definitions } from './definitions.ts'
import type { JudgeBeside, ReadBeside } from './verdict.ts'

export interface DefinitionsContext extends Context {
  readonly definitions: Definitions
  readonly expressions: Expressions
  /** Where long definitions are judged and read; in this thread, if null. */
  readonly judgeBeside: JudgeBeside | null
  readonly readBeside: ReadBeside | null
}
