/** Compiled expressions by their text: those that were used last, as many as there is room for. */
import type { CompiledExpression } from './jsonata.ts'
import { MAX_COMPILED, MAX_COMPILED_NODES } from './limits.ts'

type Compiled = Pick<CompiledExpression, 'nodes'>

export class CompiledExpressions<T extends Compiled = CompiledExpression> {
  /** The least recently used first. */
  readonly #kept = new Map<string, T>()
  #nodes = 0

  get(text: string): T | undefined {
    const compiled = this.#kept.get(text)
    if (compiled === undefined) return undefined
    this.#kept.delete(text)
    this.#kept.set(text, compiled)
    return compiled
  }

  keep(text: string, compiled: T): T {
    this.#kept.set(text, compiled)
    this.#nodes += compiled.nodes
    for (const [oldest, { nodes }] of this.#kept) {
      if (this.#kept.size <= MAX_COMPILED && this.#nodes <= MAX_COMPILED_NODES) break
      this.#kept.delete(oldest)
      this.#nodes -= nodes
    }
    return compiled
  }

  clear(): void {
    this.#kept.clear()
    this.#nodes = 0
  }
}
