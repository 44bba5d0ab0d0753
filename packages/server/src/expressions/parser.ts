/**
 * The parser of JSONata, with a bound on what it copies.
 *
 * For `a ?: b` and `a ?? b` the parser copies `a` by way of JSON; nested eighteen times, that takes it eight seconds. The
 * copying is the only place where it can be counted. So the library is loaded with a `JSON` of its own: `JSON.stringify` of
 * everybody else stays as it is (ADR 0063).
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { compileFunction } from 'node:vm'
import { ExpressionError } from '../engine/expressions.ts'
import { MAX_PARSER_COPIES } from './limits.ts'

type Stringify = (...args: Parameters<typeof JSON.stringify>) => string | undefined
type Load = (
  module: { exports: unknown },
  exports: unknown,
  json: Pick<JSON, 'parse'> & { stringify: Stringify },
) => void

export class Parser<Parsed> {
  readonly #parse: (text: string) => Parsed
  /** What the text that is being parsed has made the parser copy; null while none is. */
  #copiedLength: number | null = null

  constructor() {
    const file = createRequire(import.meta.url).resolve('jsonata')
    const load = compileFunction(readFileSync(file, 'utf8'), ['module', 'exports', 'JSON'], { filename: file }) as Load
    const module = { exports: {} as unknown }
    load(module, module.exports, { parse: (text) => JSON.parse(text) as unknown, stringify: this.#stringify })
    this.#parse = module.exports as (text: string) => Parsed
  }

  parse(text: string): Parsed {
    this.#copiedLength = 0
    try {
      return this.#parse(text)
    } finally {
      this.#copiedLength = null
    }
  }

  readonly #stringify: Stringify = (...args) => {
    const text = JSON.stringify(...args) as string | undefined
    if (this.#copiedLength !== null) {
      this.#copiedLength += text?.length ?? 0
      if (this.#copiedLength > MAX_PARSER_COPIES)
        throw new ExpressionError('JN_PARSE_ERROR', 'The operators ?: and ?? are nested too deeply.')
    }
    return text
  }
}
