/** Workflows on the server: begin, look, wait, cancel. */
import type { Connection } from './connection.ts'
import { toMillis, type Duration } from '../durations.ts'
import { parentOnWire, type EnqueueRequest, type ParentRef, type WireJob } from '../job/enqueue-options.ts'
import { InputError, UnsupportedError, WorkflowFailedError } from '../errors.ts'
import { get, part, type Signalled } from './operators.ts'
import { jsonText } from '../plain-json.ts'
import { isFine } from './refusal.ts'
import { untilOver, type Ending, type WaitOptions } from './result.ts'
import type { Pagination } from '../wire/jobs.ts'
import type { WorkflowProgressView, WorkflowState, WorkflowView } from '../wire/workflows.ts'
import { treeOnWire, type WorkflowTree } from '../workflow/workflow.ts'

/** A workflow by its id, or as `create` gave it. */
export type WorkflowRef = string | { readonly id: string }

export interface WorkflowOptions extends Signalled {
  /** The whole must be over within this; what is open then ends with it. */
  readonly workflowTimeout?: Duration
  readonly parent?: ParentRef
  /** End no later than the parent. */
  readonly inheritDeadline?: boolean
  readonly meta?: Readonly<Record<string, unknown>>
}

export interface WorkflowFilter extends Signalled {
  readonly state?: WorkflowState
}

interface Ports {
  readonly connection: Connection
  readonly opened: <T>(run: () => Promise<T>) => Promise<T>
  readonly prepare: (request: EnqueueRequest) => Promise<WireJob>
  readonly closing: AbortSignal
}

interface Answer {
  readonly workflow: WorkflowView
}

const PATH = '/ojs/v1/workflows'

export class Workflows {
  readonly #ports: Ports

  constructor(ports: Ports) {
    this.#ports = ports
  }

  /** Begins it: `chain`, `group`, `batch` or `dag`. All of it is checked before anything runs. */
  create(tree: WorkflowTree, options: WorkflowOptions = {}): Promise<WorkflowView> {
    const { connection, opened, prepare } = this.#ports
    return opened(async () => {
      const { signal } = options
      const list = await treeOnWire(tree, ({ job, input, options: said }) =>
        prepare({ job, input, options: { ...said, id: connection.newId() } }),
      )
      const whole = wholeOnWire(options)
      const knowsIds = await connection.supports('workflows')
      if (!knowsIds && whole.ours.length > 0) {
        throw new UnsupportedError(`The server would ignore what this workflow asks for: ${whole.ours.join(', ')}.`, {
          options: whole.ours,
        })
      }
      // With an id of its own it may be sent again without being begun twice.
      const id = connection.newId()
      const json = `{${[list, ...whole.members, ...(knowsIds ? [`"id":"${id}"`] : [])].join(',')}}`
      const answer = await connection.send({ method: 'POST', path: PATH, json, idempotent: knowsIds, signal })
      if (isFine(answer.status)) return connection.read<Answer>(answer).workflow
      const error = connection.refusal(answer)
      if (answer.tries === 1 || error.code !== 'duplicate') throw error
      return this.#look(id, options)
    })
  }

  /** With all its steps, as they are now. */
  get(workflow: WorkflowRef, options: Signalled = {}): Promise<WorkflowView> {
    return this.#ports.opened(() => this.#look(idOf(workflow), options))
  }

  /**
   * The workflow, as soon as it is completed. Throws a WorkflowFailedError when it failed or was cancelled, and a
   * DeadlineError (kind `budget`) when the timeout is up first.
   */
  wait(workflow: WorkflowRef, options: WaitOptions = {}): Promise<WorkflowView> {
    const { connection, opened, closing } = this.#ports
    return opened(async () => {
      const seen = await untilOver(connection, endingOf(idOf(workflow)), options, closing, 'workflows.wait')
      const { id, state, error } = seen
      if (state === 'failed' || state === 'cancelled') throw new WorkflowFailedError(id, state, error ?? null)
      return seen
    })
  }

  progress(workflow: WorkflowRef, options: Signalled = {}): Promise<WorkflowProgressView> {
    const { connection, opened } = this.#ports
    return opened(() => get<WorkflowProgressView>(connection, `${pathOf(idOf(workflow))}/progress`, options))
  }

  /** Waiting jobs are cancelled; active ones run on, and nothing follows from their results. A workflow that is over is refused: `conflict`. */
  cancel(workflow: WorkflowRef, { signal }: Signalled = {}): Promise<WorkflowView> {
    const { connection, opened } = this.#ports
    return opened(async () => {
      const id = idOf(workflow)
      const answer = await connection.send({ method: 'DELETE', path: pathOf(id), idempotent: true, signal })
      if (isFine(answer.status)) return connection.read<Answer>(answer).workflow
      const error = connection.refusal(answer)
      if (answer.tries === 1 || error.code !== 'conflict') throw error
      // The first try may have been heard.
      const found = await this.#look(id, signal === undefined ? {} : { signal })
      if (found.state !== 'cancelled') throw error
      return found
    })
  }

  /** Newest first, without their steps, fetched by and by. */
  async *list(filter: WorkflowFilter = {}): AsyncGenerator<WorkflowView, void, undefined> {
    const { connection, opened } = this.#ports
    for (let cursor: string | undefined; ;) {
      const query = { state: filter.state, cursor, limit: 200 }
      const { workflows, pagination } = await opened(() =>
        get<{ workflows: WorkflowView[]; pagination?: Pagination }>(connection, PATH, filter, query),
      )
      yield* workflows
      cursor = pagination?.next_cursor
      if (cursor === undefined) return
    }
  }

  async #look(id: string, options: Signalled): Promise<WorkflowView> {
    return (await get<Answer>(this.#ports.connection, pathOf(id), options)).workflow
  }
}

function wholeOnWire(options: WorkflowOptions): { members: string[]; ours: string[] } {
  const { workflowTimeout, parent, inheritDeadline, meta } = options
  if (inheritDeadline === true && parent === undefined)
    throw new InputError('inheritDeadline needs a parent to inherit from.', { field: 'inheritDeadline' })
  const members: string[] = []
  const ours: string[] = []
  if (workflowTimeout !== undefined) {
    members.push(`"workflow_timeout_ms":${String(toMillis(workflowTimeout, 'workflowTimeout'))}`)
    ours.push('workflowTimeout')
  }
  if (parent !== undefined) {
    members.push(`"x_parent":${JSON.stringify(parentOnWire(parent))}`)
    ours.push('parent')
  }
  if (inheritDeadline === true) {
    members.push('"x_inherit_deadline":true')
    ours.push('inheritDeadline')
  }
  if (meta !== undefined) members.push(`"meta":${jsonText(meta, 'The meta of a workflow')}`)
  return { members, ours }
}

function endingOf(id: string): Ending<WorkflowView> {
  const read = (body: unknown): WorkflowView => (body as Answer).workflow
  return {
    askPath: pathOf(id),
    lookPath: pathOf(id),
    readAsked: read,
    readLooked: read,
    isOver: ({ state }) => state === 'completed' || state === 'failed' || state === 'cancelled',
  }
}

function idOf(ref: WorkflowRef): string {
  return typeof ref === 'string' ? ref : ref.id
}

const pathOf = (id: string): string => `${PATH}/${part(id)}`
