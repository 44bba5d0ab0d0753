import type { Feature } from '../kernel/feature.ts'
import type { DefinitionsContext } from './context.ts'

/** Definitions that were read are remembered until a reset; the threads of expressions end after the last command. */
export function definitions(context: DefinitionsContext): Feature {
  return {
    reset: () => {
      context.definitions.forget()
    },
    release: () => context.expressions.close(),
  }
}
