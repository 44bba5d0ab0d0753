/**
 * The text of a definition: YAML 1.2, of which JSON is a part. It becomes plain JSON, and remembers where each value was
 * written, so that whatever is found wrong later can be shown to its author at line and column.
 *
 * The text comes from outside. What it may cost is bounded before it is spent: bytes, nesting (a deep enough text would
 * end the process inside the parser), pieces, aliases, and what aliases make of it when they are followed. While pieces
 * are read, others get their turn.
 */
import { MAX_JSON_DEPTH, utf8Length, type Diagnostic } from '@curfew/core'
import {
  Composer,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  Parser,
  type Document,
  type Node,
  type Pair,
  type YAMLMap,
} from 'yaml'

export const MAX_DEFINITION = 1_048_576
const MAX_ALIASES = 100
const MAX_PIECES = 400_000
const PIECES_A_TURN = 4_000
/** Levels of ours take up to two of the parser's, and there is one for the document. */
const MAX_STACK = 2 * MAX_JSON_DEPTH + 8
const MAX_TOLD = 100

/** A diagnostic with its place in the text; lines and columns from 1. */
export interface Located {
  readonly code: string
  readonly path: string
  readonly line: number
  readonly column: number
  readonly message: string
}

export interface Source {
  readonly value: unknown
  readonly locate: (diagnostic: Diagnostic) => Located
}

/** Lets others have their turn. */
export type Pause = () => Promise<void>

/** The text as JSON with places, or what is wrong with it. */
export async function readSource(text: string, pause: Pause): Promise<Source | readonly Located[]> {
  if (utf8Length(text) > MAX_DEFINITION) return [atTop(`The text is larger than ${String(MAX_DEFINITION)} bytes.`)]
  const parsed = await parse(text, pause)
  const starts = startsOfLines(text)
  if (typeof parsed === 'string') return [atTop(parsed)]
  const located = (offset: number, message: string, path = ''): Located => {
    const { line, column } = placeIn(starts, Math.min(offset, text.length))
    return { code: 'SYNTAX-1', path, line, column, message }
  }
  const [document, second] = parsed
  if (document === undefined || document.contents === null) return [atTop('The text is empty.')]
  if (second !== undefined)
    return [located(second.range[0], 'There must be one document in the text; a second begins here.')]
  const slips = [...document.errors, ...document.warnings]
  if (slips.length > 0) return slips.slice(0, MAX_TOLD).map(({ pos, message }) => located(pos[0], sentence(message)))
  const plain = new Plain(document)
  const value = plain.valueOf(document.contents, 1, '')
  if (plain.slips.length > 0)
    return plain.slips.slice(0, MAX_TOLD).map(({ node, message, path }) => located(offsetOf(node), message, path))
  return {
    value,
    locate: ({ code, path, message, on }) => {
      const { line, column } = located(placeOf(document, path, on), message)
      return { code, path, line, column, message }
    },
  }
}

export const isSource = (read: Source | readonly Located[]): read is Source => !Array.isArray(read)

/** Not the library's own count, which loses its way in a text that is broken. */
function startsOfLines(text: string): readonly number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return starts
}

function placeIn(starts: readonly number[], offset: number): { readonly line: number; readonly column: number } {
  let [low, high] = [0, starts.length]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if ((starts[middle] ?? 0) <= offset) low = middle
    else high = middle
  }
  return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 }
}

const atTop = (message: string): Located => ({ code: 'SYNTAX-1', path: '', line: 1, column: 1, message })

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

async function parse(text: string, pause: Pause): Promise<Document.Parsed[] | string> {
  const parser = new Parser()
  const tokens = []
  let pieces = 0
  for (const piece of new Lexer().lex(text)) {
    for (const token of parser.next(piece)) tokens.push(token)
    if (parser.stack.length > MAX_STACK) return TOO_DEEP
    pieces += 1
    if (pieces > MAX_PIECES) return `The text is made of more than ${String(MAX_PIECES)} pieces.`
    if (pieces % PIECES_A_TURN === 0) await pause()
  }
  for (const token of parser.end()) tokens.push(token)
  const composer = new Composer({
    version: '1.2',
    schema: 'core',
    // Looked for by us: the library compares each key with all others.
    uniqueKeys: false,
    stringKeys: true,
    strict: true,
    logLevel: 'silent',
    prettyErrors: false,
  })
  const { stackTraceLimit } = Error
  // A text may have half a million slips, and each is made into an Error.
  Error.stackTraceLimit = 0
  try {
    const documents: Document.Parsed[] = []
    for (const document of composer.compose(tokens, true, text.length)) {
      documents.push(document)
      if (documents.length > 1) break
    }
    return documents
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

const TOO_DEEP = `The text is nested deeper than ${String(MAX_JSON_DEPTH)} levels.`
/** What JSON has; a value with any other tag would not be JSON. */
const TAGS = ['str', 'int', 'float', 'bool', 'null', 'map', 'seq'].map((name) => `tag:yaml.org,2002:${name}`)

/** Nodes as plain JSON. */
class Plain {
  readonly slips: { readonly node: unknown; readonly message: string; readonly path: string }[] = []
  readonly #document: Document.Parsed
  #aliases = 0
  #size = 0

  constructor(document: Document.Parsed) {
    this.#document = document
  }

  valueOf(node: unknown, depth: number, path: string): unknown {
    this.#size += 1
    const isSpent = this.#size > MAX_DEFINITION
    if (isSpent || this.slips.length >= MAX_TOLD) {
      if (isSpent && this.slips.length === 0)
        this.#slip(node, 'The text becomes too large when its aliases are followed.', path)
      return null
    }
    if (isAlias(node)) {
      this.#aliases += 1
      if (this.#aliases > MAX_ALIASES)
        return this.#slip(node, `There are more than ${String(MAX_ALIASES)} aliases.`, path)
      const target = node.resolve(this.#document)
      if (target === undefined) return this.#slip(node, `There is no anchor &${node.source} before this.`, path)
      return this.valueOf(target, depth, path)
    }
    if ((isMap(node) || isSeq(node)) && depth > MAX_JSON_DEPTH) return this.#slip(node, TOO_DEEP, path)
    if (isTagged(node)) return this.#slip(node, `${String(node.tag)} is not a type of JSON.`, path)
    if (isMap(node)) return this.#mapping(node, depth, path)
    if (isSeq(node)) return node.items.map((item, index) => this.valueOf(item, depth + 1, `${path}/${String(index)}`))
    return isScalar(node) ? this.#scalar(node.value, node, path) : null
  }

  #mapping(node: YAMLMap, depth: number, path: string): unknown {
    const members = new Map<string, unknown>()
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : ''
      const at = `${path}/${escaped(name)}`
      this.#size += name.length
      if (members.has(name)) this.#slip(key, `The key ${JSON.stringify(name)} is there twice.`, at)
      members.set(name, this.valueOf(value, depth + 1, at))
    }
    return Object.fromEntries(members)
  }

  #scalar(value: unknown, node: unknown, path: string): unknown {
    if (typeof value === 'string') this.#size += value.length
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
    if (typeof value === 'number' && Number.isFinite(value)) return value
    return this.#slip(node, 'This is not a JSON value.', path)
  }

  #slip(node: unknown, message: string, path: string): null {
    this.slips.push({ node, message, path })
    return null
  }
}

const isTagged = (node: unknown): node is { tag: string } => {
  const tag = (node as { tag?: unknown } | null)?.tag
  return typeof tag === 'string' && !TAGS.includes(tag)
}

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')

const offsetOf = (node: unknown): number => (node as Node | null)?.range?.[0] ?? 0

/** Where a pointer points; as far as it leads, if it leads to nothing. */
function placeOf(document: Document.Parsed, path: string, on: Diagnostic['on']): number {
  const parts = path.split('/').slice(1)
  let node: unknown = document.contents
  for (const [index, part] of parts.entries()) {
    const whole: unknown = isAlias(node) ? node.resolve(document) : node
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (isSeq(whole)) {
      const item: unknown = whole.items[Number(name)]
      if (item === undefined) return offsetOf(whole)
      node = item
      continue
    }
    const pair: Pair | undefined = isMap(whole)
      ? whole.items.find(({ key }) => isScalar(key) && String(key.value) === name)
      : undefined
    if (pair === undefined) return offsetOf(whole)
    if (on === 'key' && index === parts.length - 1) return offsetOf(pair.key)
    // A key with nothing behind it has no value to point to.
    node = pair.value ?? pair.key
  }
  return offsetOf(node)
}
