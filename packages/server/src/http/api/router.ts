/** A tree of path segments. `:name` matches one segment, `*name` all that are left; a literal wins over a name. */

interface Node<T> {
  readonly literals: Map<string, Node<T>>
  rest: { readonly name: string; readonly node: Node<T> } | null
  parameter: { readonly name: string; readonly node: Node<T> } | null
  readonly methods: Map<string, T>
}

export type Match<T> =
  | { readonly kind: 'found'; readonly route: T; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: 'wrong-method'; readonly allow: readonly string[] }
  | { readonly kind: 'unknown' }

const newNode = <T>(): Node<T> => ({ literals: new Map(), rest: null, parameter: null, methods: new Map() })

export class Router<T> {
  readonly #root = newNode<T>()
  /** Paths without names need no search. */
  readonly #literal = new Map<string, Node<T>>()

  add(method: string, path: string, route: T): void {
    let node = this.#root
    for (const segment of segmentsOf(path)) {
      if (segment.startsWith(':')) {
        node.parameter ??= { name: segment.slice(1), node: newNode<T>() }
        if (node.parameter.name !== segment.slice(1)) throw new Error(`two names for one place in ${path}`)
        node = node.parameter.node
      } else if (segment.startsWith('*')) {
        node.rest ??= { name: segment.slice(1), node: newNode<T>() }
        node = node.rest.node
      } else {
        const next = node.literals.get(segment) ?? newNode<T>()
        node.literals.set(segment, next)
        node = next
      }
    }
    if (node.methods.has(method)) throw new Error(`${method} ${path} is there twice`)
    node.methods.set(method, route)
    if (!/\/[:*]/.test(path)) this.#literal.set(path, node)
  }

  match(method: string, path: string): Match<T> {
    const params: Record<string, string> = {}
    const node = this.#literal.get(path) ?? find(this.#root, segmentsOf(path), 0, params)
    if (node === null || node.methods.size === 0) return { kind: 'unknown' }
    const route = node.methods.get(method)
    return route === undefined
      ? { kind: 'wrong-method', allow: [...node.methods.keys()] }
      : { kind: 'found', route, params }
  }
}

function find<T>(
  node: Node<T>,
  segments: readonly string[],
  at: number,
  params: Record<string, string>,
): Node<T> | null {
  const segment = segments[at]
  if (segment === undefined) return node
  const literal = node.literals.get(segment)
  if (literal !== undefined) {
    const found = find(literal, segments, at + 1, params)
    if (found !== null && found.methods.size > 0) return found
  }
  if (segment === '') return null
  if (node.parameter !== null) {
    const value = decode(segment)
    if (value === null) return null
    params[node.parameter.name] = value
    const found = find(node.parameter.node, segments, at + 1, params)
    if (found !== null && found.methods.size > 0) return found
    delete params[node.parameter.name]
  }
  if (node.rest === null) return null
  params[node.rest.name] = segments.slice(at).join('/')
  return node.rest.node
}

function segmentsOf(path: string): string[] {
  return path.slice(1).split('/')
}

/** Null for an invalid percent-escape. */
function decode(segment: string): string | null {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return null
  }
}
