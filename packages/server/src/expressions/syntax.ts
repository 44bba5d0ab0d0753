/**
 * A look at the syntax tree before anything is evaluated. It refuses what cannot be bounded or would leave the language
 * (`$eval`, signatures that are regular expressions in disguise), finds variables without a binding, and marks the nodes
 * whose results the guard must look at.
 */
import { ExpressionError } from '../engine/expressions.ts'
import { MAX_PATTERN_STATES, MAX_TREE_DEPTH, MAX_TREE_NODES, MAX_TUPLE_VARIABLES } from './limits.ts'
import { FUNCTIONS, type SyntaxNode } from './natives.ts'
import { PatternRefused } from './pattern.ts'
import { compilePattern } from './regex.ts'

/** What the guard does with the result of a node. */
export const MARKS = {
  /** It may be new: weigh it. */
  weigh: 1,
  /** It will be made part of a string. */
  concatenated: 2,
  /** It will be compared with another. */
  compared: 4,
  /** It becomes a member of an object. */
  member: 8,
  /** A transform will change what it finds. */
  pattern: 16,
  /** A transform will copy its members into what was found. */
  update: 32,
} as const

const MARK = Symbol('what the guard does with the result')

type Node = SyntaxNode & Record<string, unknown> & { [MARK]?: number }

export const marksOf = (node: SyntaxNode): number => (node as Node)[MARK] ?? 0

/** Nodes whose results are no heavier than what they were taken from, or have been weighed where they were made. */
const PICKING = new Set(['name', 'wildcard', 'variable', 'parent', 'string', 'value', 'condition', 'block', 'bind'])
for (const type of ['function', 'apply', 'lambda', 'regex']) PICKING.add(type)

/** Where nodes are found within a node. */
const CHILDREN = ['steps', 'lhs', 'rhs', 'expressions', 'expression', 'arguments', 'procedure', 'body', 'condition']
CHILDREN.push('then', 'else', 'pattern', 'update', 'delete', 'terms', 'predicate', 'stages', 'group', 'expr')

const unsupported = (message: string, position: number | undefined): ExpressionError =>
  new ExpressionError('JN_UNSUPPORTED_SYNTAX', message, position)

export interface Inspection {
  /** Literal strings: what the author wrote may be repeated in an error, what was found in the data may not. */
  readonly literals: ReadonlySet<string>
  readonly nodes: number
}

export function inspect(tree: SyntaxNode): Inspection {
  const inspector = new Inspector()
  inspector.visit(tree as Node, 0)
  inspector.finish()
  return { literals: inspector.literals, nodes: inspector.nodes }
}

class Inspector {
  readonly literals = new Set<string>()
  nodes = 0
  #states = 0
  #transforms = 0
  readonly #bound = new Set<string>(['', '$', ...FUNCTIONS])
  readonly #used: Node[] = []
  readonly #tupleVariables = new Set<string>()
  readonly #calls: Node[] = []

  visit(node: Node, depth: number): void {
    this.nodes += 1
    if (depth > MAX_TREE_DEPTH || this.nodes > MAX_TREE_NODES)
      throw new ExpressionError('JN_PARSE_ERROR', 'The expression is too large or nested too deeply.', node.position)
    this.#look(node)
    for (const name of CHILDREN) this.#visitAll(node[name], depth + 1)
  }

  #visitAll(found: unknown, depth: number): void {
    if (Array.isArray(found)) for (const item of found as unknown[]) this.#visitAll(item, depth)
    else if (typeof found === 'object' && found !== null) this.visit(found as Node, depth)
  }

  /** What can only be said when everything was seen. */
  finish(): void {
    for (const { value, position } of this.#used) {
      if (typeof value === 'string' && !this.#bound.has(value))
        throw new ExpressionError(
          'JN_UNKNOWN_VARIABLE',
          `There is no variable or function $${value.slice(0, 80)}.`,
          position,
        )
    }
    // A transform changes what a call gives back, after it was made.
    if (this.#transforms > 0) for (const node of this.#calls) mark(node, MARKS.weigh)
  }

  #look(node: Node): void {
    if (!isPicking(node)) mark(node, MARKS.weigh)
    switch (node.type) {
      case 'string':
        this.literals.add(String(node.value))
        break
      case 'variable':
        this.#variable(node)
        break
      case 'bind':
        this.#bound.add(String((node['lhs'] as Node).value))
        break
      case 'lambda':
        this.#lambda(node)
        break
      case 'regex':
        this.#regex(node)
        break
      case 'binary':
        if (node.value === '&') markBoth(node, MARKS.concatenated)
        if (node.value === '=' || node.value === '!=') markBoth(node, MARKS.compared)
        break
      case 'unary':
        if (node.value === '{') markMembers(node['lhs'])
        break
      case 'function':
      case 'apply':
        this.#calls.push(node)
        break
      case 'transform':
        this.#transform(node)
        break
    }
    const group = node['group'] as Node | undefined
    if (group !== undefined) markMembers(group['lhs'])
    if (node['focus'] !== undefined) this.#tupleVariable(node['focus'], node.position)
    if (node['index'] !== undefined) this.#tupleVariable(node['index'], node.position)
    if (node.type === 'index') this.#tupleVariable(node.value, node.position)
  }

  #variable(node: Node): void {
    if (node.value === 'eval') throw unsupported('$eval is not supported.', node.position)
    this.#used.push(node)
  }

  #lambda(node: Node): void {
    for (const parameter of node['arguments'] as Node[]) this.#bound.add(String(parameter.value))
    const signature = node['signature'] as { readonly definition: string } | undefined
    if (signature !== undefined && !isPlainSignature(signature.definition))
      throw unsupported('This signature of a function is not supported.', node.position)
  }

  #regex(node: Node): void {
    try {
      // JSONata copies the left side of ?: and ??, and loses regular expressions on the way.
      if (!(node.value instanceof RegExp)) throw new PatternRefused('cannot stand to the left of ?: or ??')
      this.#states += compilePattern(node.value).states
      if (this.#states > 2 * MAX_PATTERN_STATES) throw new PatternRefused('makes all of them together too large')
    } catch (error) {
      if (!(error instanceof PatternRefused)) throw error
      throw unsupported(`This regular expression ${error.message}.`, node.position)
    }
  }

  #tupleVariable(name: unknown, position: number | undefined): void {
    const variable = String(name)
    // JSONata keeps them as members of objects of its own, where these names mean something.
    if (/^(then|__proto__|_jsonata_.*|@|!.*)$/.test(variable))
      throw unsupported(`A variable bound by @ or # cannot be called $${variable.slice(0, 80)}.`, position)
    this.#bound.add(variable)
    this.#tupleVariables.add(variable)
    if (this.#tupleVariables.size > MAX_TUPLE_VARIABLES)
      throw unsupported('The expression binds too many variables by @ and #.', position)
  }

  #transform(node: Node): void {
    this.#transforms += 1
    mark(node['pattern'] as Node, MARKS.pattern)
    mark(node['update'] as Node, MARKS.update)
    for (const name of ['pattern', 'update', 'delete']) refuseLooseBinds(node[name])
  }
}

const mark = (node: Node, marks: number): void => {
  node[MARK] = (node[MARK] ?? 0) | marks
}

function markBoth(node: Node, marks: number): void {
  mark(node['lhs'] as Node, marks)
  mark(node['rhs'] as Node, marks)
}

function markMembers(pairs: unknown): void {
  for (const [, value] of pairs as [Node, Node][]) mark(value, MARKS.member)
}

function isPicking(node: Node): boolean {
  if (!picksOnce(node)) return false
  if (node.type !== 'path') return PICKING.has(node.type)
  // Any other step is evaluated for each item before it, and may give the same value each time.
  return (node['steps'] as Node[]).every(
    (step, at) =>
      picksOnce(step) && (['name', 'wildcard'].includes(step.type) || (at === 0 && step.type === 'variable')),
  )
}

function picksOnce(node: Node): boolean {
  if (node['group'] !== undefined || node['tuple'] !== undefined) return false
  const filters = [node['predicate'] ?? [], node['stages'] ?? []].flat() as Node[]
  // [[0,0,0]] picks the same item three times.
  return filters.every((filter) => (filter['expr'] as Node | undefined)?.type === 'number')
}

/**
 * A variable bound within a transform, but outside parentheses, would outlive the moment and hold on to what is about to
 * be changed.
 */
function refuseLooseBinds(found: unknown): void {
  if (Array.isArray(found)) for (const item of found as unknown[]) refuseLooseBinds(item)
  if (typeof found !== 'object' || found === null) return
  const node = found as Node
  if (node.type === 'bind') throw unsupported('Within a transform, := needs parentheses around it.', node.position)
  if (node.type === 'block' || node.type === 'lambda') return
  for (const name of CHILDREN) refuseLooseBinds(node[name])
}

/**
 * JSONata makes a native regular expression of a signature. Types, lists of types in parentheses, and few optional ones:
 * these match in no time.
 */
function isPlainSignature(definition: string): boolean {
  const types = SIGNATURE.exec(definition)?.[1]
  if (types === undefined) return false
  const count = (of: RegExp): number => types.match(of)?.length ?? 0
  return count(/[-?]/g) <= 4 && count(/\+/g) <= 1
}

const SIGNATURE =
  /^<((?:(?:\([snblofajx]{1,9}\)|[af]<[snblofajx:?<>]{1,20}>|[snblofajx])[-?+]?){0,8})(?::[^<>]*(?:<[^<>]*>)?)?>$/
