/**
 * Workflows as data: lists of jobs, and of lists. Built here, begun by `client.workflows`.
 *
 *   chain([entry(extract, [url]), group([entry(toCsv, []), entry(toPdf, [])]), entry(load, [])])
 */
import type { EnqueueEntry } from '../job/entry.ts'
import { InputError } from '../errors.ts'
import type { EnqueueOptions, WireJob } from '../job/enqueue-options.ts'

/** A job, made by `entry`, or a list inside the list. */
export type WorkflowNode = EnqueueEntry | WorkflowTree

export interface ListOptions {
  /** For people. */
  readonly name?: string
}

export interface BatchCallbacks {
  /** When all jobs are over, whatever came of them. */
  readonly onComplete?: EnqueueEntry
  /** When all have succeeded. */
  readonly onSuccess?: EnqueueEntry
  /** When any has failed. */
  readonly onFailure?: EnqueueEntry
}

/** A step of a DAG: what to run, and the steps that must have succeeded before. */
export interface DagStep<Names extends string = string> {
  readonly after: readonly Names[]
  readonly run: WorkflowNode
}

export type WorkflowTree =
  | { readonly kind: 'chain' | 'group'; readonly nodes: readonly WorkflowNode[]; readonly options: ListOptions }
  | {
      readonly kind: 'batch'
      readonly nodes: readonly WorkflowNode[]
      readonly callbacks: BatchCallbacks
      readonly options: ListOptions
    }
  | { readonly kind: 'dag'; readonly steps: Readonly<Record<string, DagStep>>; readonly options: ListOptions }

/** One after the other; each sees the results of all before it. A failure halts the chain. */
export function chain(steps: readonly WorkflowNode[], options: ListOptions = {}): WorkflowTree {
  return { kind: 'chain', nodes: steps, options }
}

/** All at once. Over when all are; failed if any has failed. */
export function group(jobs: readonly WorkflowNode[], options: ListOptions = {}): WorkflowTree {
  return { kind: 'group', nodes: jobs, options }
}

/** All at once, and then the callbacks, which see the results of all. */
export function batch(
  jobs: readonly WorkflowNode[],
  callbacks: BatchCallbacks,
  options: ListOptions = {},
): WorkflowTree {
  return { kind: 'batch', nodes: jobs, callbacks, options }
}

/** Each as soon as the steps it names have succeeded: `{ a: entry(…), b: { after: ['a'], run: entry(…) } }`. */
export function dag<Names extends string>(
  steps: Readonly<Record<Names, WorkflowNode | DagStep<NoInfer<Names>>>>,
  options: ListOptions = {},
): WorkflowTree {
  const named = Object.entries<WorkflowNode | DagStep>(steps).map(([name, step]): [string, DagStep] => [
    name,
    'run' in step ? step : { after: [], run: step },
  ])
  return { kind: 'dag', steps: Object.fromEntries(named), options }
}

/** Checks an enqueue and writes it down. */
export type Prepare = (node: EnqueueEntry) => Promise<WireJob>

/** What goes onto the wire: the inside of an object. */
export async function treeOnWire(tree: WorkflowTree, prepare: Prepare): Promise<string> {
  const { name } = tree.options
  const own = name === undefined ? '' : `,"name":${JSON.stringify(name)}`
  if (tree.kind === 'dag') {
    const steps: string[] = []
    for (const [id, { after, run }] of Object.entries(tree.steps)) {
      const text = await nodeOnWire(run, prepare)
      steps.push(`{"id":${JSON.stringify(id)},"depends_on":${JSON.stringify(after)},${text.slice(1)}`)
    }
    return `"steps":[${steps.join(',')}]${own}`
  }
  const nodes: string[] = []
  for (const node of tree.nodes) nodes.push(await nodeOnWire(node, prepare))
  const list = `"type":"${tree.kind}","${tree.kind === 'chain' ? 'steps' : 'jobs'}":[${nodes.join(',')}]${own}`
  return tree.kind === 'batch' ? `${list},"callbacks":{${await callbacksOnWire(tree.callbacks, prepare)}}` : list
}

async function nodeOnWire(node: WorkflowNode, prepare: Prepare): Promise<string> {
  if ('kind' in node) return `{${await treeOnWire(node, prepare)}}`
  for (const name of NOT_FOR_STEPS) {
    if (node.options?.[name] !== undefined)
      throw new InputError(`A step of a workflow has no option ${name}.`, { field: name })
  }
  return (await prepare(node)).template
}

/** A step belongs to its workflow, and ends with it. */
const NOT_FOR_STEPS = ['id', 'parent', 'inheritDeadline'] as const satisfies readonly (keyof EnqueueOptions)[]

async function callbacksOnWire(callbacks: BatchCallbacks, prepare: Prepare): Promise<string> {
  const { onComplete, onSuccess, onFailure } = callbacks
  const named = { on_complete: onComplete, on_success: onSuccess, on_failure: onFailure }
  const parts: string[] = []
  for (const [name, node] of Object.entries(named)) {
    if (node !== undefined) parts.push(`"${name}":${await nodeOnWire(node, prepare)}`)
  }
  return parts.join(',')
}
