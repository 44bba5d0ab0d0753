/**
 * JSONata from its inside: the functions it has, and the frame of an evaluation. Neither is exported, but a hook is called
 * with the frame, and from the frame every function can be looked up. All of it holds for the pinned version, and the
 * test beside this file reads its source to say so.
 */
import { Parser } from './parser.ts'

export const ENTRY = Symbol.for('jsonata.__evaluate_entry')
export const EXIT = Symbol.for('jsonata.__evaluate_exit')

export interface Signature {
  validate(args: readonly unknown[], context: unknown): unknown[]
}

type Implementation = (this: unknown, ...args: unknown[]) => unknown

/** A function as JSONata keeps it. It writes `token` and `position` onto it with every call. */
export interface Definition {
  readonly _jsonata_function: true
  readonly implementation: Implementation
  readonly signature: Signature
  token?: unknown
  position?: unknown
}

/** The outermost frame of one evaluation: what JSONata asks for lists, regular expressions, limits and the time. */
export interface Base {
  readonly base: Base
  timestamp: Date
  options: { readonly sequence: number }
  createSequence: (...first: unknown[]) => unknown[]
  RegexEngine: unknown
}

export interface Frame {
  readonly base: Base
  lookup(name: string): unknown
}

export interface SyntaxNode {
  readonly type: string
  readonly value?: unknown
  readonly position?: number
}

export type EntryHook = (node: SyntaxNode, input: unknown, frame: Frame) => void
export type ExitHook = (node: SyntaxNode, input: unknown, frame: Frame, result: unknown) => void

/** A compiled expression, with what its type declarations leave out: hooks are bound by symbols. */
export interface Jsonata {
  evaluate(input: unknown): Promise<unknown>
  assign(name: string | symbol, value: unknown): void
  ast(): SyntaxNode
}

const PARSER = new Parser<Jsonata>()

export const parse = (text: string): Jsonata => PARSER.parse(text)

/** Every function of JSONata 2.2.2. What is not in this list is not there. */
export const FUNCTIONS = [
  ...['sum', 'count', 'max', 'min', 'average', 'string', 'substring', 'substringBefore', 'substringAfter', 'lowercase'],
  ...['uppercase', 'length', 'trim', 'pad', 'match', 'contains', 'replace', 'split', 'join', 'formatNumber'],
  ...['formatBase', 'formatInteger', 'parseInteger', 'number', 'floor', 'ceil', 'round', 'abs', 'sqrt', 'power'],
  ...['random', 'boolean', 'not', 'map', 'zip', 'filter', 'single', 'reduce', 'sift', 'keys', 'lookup', 'append'],
  ...['exists', 'spread', 'merge', 'reverse', 'each', 'error', 'assert', 'type', 'sort', 'shuffle', 'distinct'],
  ...['base64encode', 'base64decode', 'encodeUrlComponent', 'encodeUrl', 'decodeUrlComponent', 'decodeUrl', 'eval'],
  ...['toMillis', 'fromMillis', 'clone', 'now', 'millis'],
]

function capture(): ReadonlyMap<string, Definition> {
  const probe = parse('1')
  const found = new Map<string, Definition>()
  const look: EntryHook = (_node, _input, frame) => {
    for (const name of FUNCTIONS) found.set(name, frame.lookup(name) as Definition)
  }
  probe.assign(ENTRY, look)
  // The hook of the outermost node is called before anything is awaited.
  void probe.evaluate(null)
  return found
}

export const NATIVES = capture()
