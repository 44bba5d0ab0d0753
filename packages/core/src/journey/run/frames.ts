/**
 * The frames of a run, and how to change one without touching the others. A frame is found by the number of its last
 * entry into a state, which no other frame shares.
 */
import { broken } from '../../errors.ts'
import { stateTypeOf, type Definition, type Graph, type State, type StateId } from '../definition.ts'
import { framesIn, type Data, type Frame, type Run } from './run.ts'
import { surveyOf } from './survey.ts'

/** A frame that is to enter a state. */
export function readyAt(path: string, state: StateId, context: Data, by: string | null = null, steps = 0): Frame {
  return { path, state, type: null, visit: 0, context, steps, rest: { kind: 'ready', by } }
}

/** The frame goes on to its next state. */
export function moved(frame: Frame, next: StateId, context: Data = frame.context, by: string | null = null): Frame {
  return { ...frame, state: next, context, rest: { kind: 'ready', by } }
}

/** Hands what `from` was to do to another server; null: to the first that takes it. */
export function handedOn(frame: Frame, from: string | null, to: string): Frame {
  const { owners, isUnclaimed } = surveyOf(frame)
  if (from === null ? !isUnclaimed : !owners.has(from)) return frame
  return changeFrames(frame, (leaf) => {
    const { rest } = leaf
    if ((rest.kind !== 'ready' && rest.kind !== 'calling') || rest.by !== from) return null
    return { ...leaf, rest: { ...rest, by: to } }
  })
}

/** Changes the frames for which `change` has an answer; what is above them is made anew, everything else stays. */
export function changeFrames(frame: Frame, change: (leaf: Frame) => Frame | null): Frame {
  const { rest } = frame
  if (rest.kind === 'inside') {
    const inner = changeFrames(rest.frame, change)
    return inner === rest.frame ? frame : { ...frame, rest: { kind: 'inside', frame: inner } }
  }
  if (rest.kind === 'forked') {
    // Copied with the first change: most looks at many branches change none of them.
    let frames: Record<string, Frame> | null = null
    for (const [name, branch] of Object.entries(rest.frames)) {
      const after = changeFrames(branch, change)
      if (after === branch) continue
      frames ??= { ...rest.frames }
      frames[name] = after
    }
    return frames === null ? frame : { ...frame, rest: { kind: 'forked', frames } }
  }
  return change(frame) ?? frame
}

export interface Located {
  readonly frame: Frame
  readonly graph: Graph
}

/** The graph a run goes through. */
export function graphOf({ kind }: Pick<Run, 'kind'>, definition: Definition): Graph {
  if (kind !== 'Compensation') return definition
  if (definition.compensation === null) throw broken(`${definition.name} ${definition.version} has no compensation`)
  return definition.compensation
}

export function stateOf({ states }: Graph, id: StateId): State {
  const state = Object.hasOwn(states, id) ? states[id] : undefined
  if (state === undefined) throw broken(`there is no state ${id}`)
  return state
}

/** The graph of a branch, or of what a subjourney refers to. */
export function graphWithin(definition: Definition, state: State, branch: string | null): Graph {
  if (state.type === 'parallel') {
    const found = state.branches.find(({ name }) => name === branch)
    if (found !== undefined) return found
  }
  if (state.type === 'subjourney') {
    const found = Object.hasOwn(definition.subjourneys, state.ref) ? definition.subjourneys[state.ref] : undefined
    if (found !== undefined) return found
  }
  throw broken(`a state of type ${stateTypeOf(state)} has nothing inside it called ${branch ?? 'so'}`)
}

/** Every leaf with the graph it is in. */
export function locate(frame: Frame, graph: Graph, definition: Definition): readonly Located[] {
  const { rest } = frame
  if (rest.kind === 'inside')
    return locate(rest.frame, graphWithin(definition, stateOf(graph, frame.state), null), definition)
  if (rest.kind === 'forked') {
    const state = stateOf(graph, frame.state)
    const branches = new Map(state.type === 'parallel' ? state.branches.map((branch) => [branch.name, branch]) : [])
    return Object.entries(rest.frames).flatMap(([name, branch]) =>
      locate(branch, branches.get(name) ?? graphWithin(definition, state, name), definition),
    )
  }
  return [{ frame, graph }]
}

/** After so many frames, or so many characters of text that was made to be measured, others have their turn. */
const FRAMES_PER_TURN = 512
const CHARACTERS_PER_TURN = 65_536

/**
 * Whether what the frames remember is more than so many characters of JSON. Branches share what they were given, and would
 * be written with a copy each: what is the same object is measured once, and the sum is given up as soon as it is too large.
 */
export function* remembersMoreThan(root: Frame, max: number): Generator<void, boolean> {
  const sizes = new Map<unknown, number>()
  let [frames, measured] = [0, 0]
  const sizeOf = (value: unknown): number => {
    const known = sizes.get(value)
    if (known !== undefined) return known
    const size = (JSON.stringify(value) ?? '').length
    sizes.set(value, size)
    measured += size
    return size
  }
  let sum = 0
  for (const { context, rest } of framesIn(root)) {
    sum += sizeOf(context) + (rest.kind === 'over' ? sizeOf(rest.end.output) : 0)
    if (sum > max) return true
    frames += 1
    if (frames < FRAMES_PER_TURN && measured < CHARACTERS_PER_TURN) continue
    ;[frames, measured] = [0, 0]
    yield
  }
  return false
}
