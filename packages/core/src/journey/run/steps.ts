/** Places in a definition by their path, as runs and answers name them: `fanout/kyc/call`, `ship/book`. */
import type { Definition, Graph, Projection, State } from '../definition.ts'
import type { Data, Frame, Run, RunKind } from './run.ts'

/** The state at a path; null where the definition has none. */
export function stateAt(definition: Definition, kind: RunKind, path: string): State | null {
  let graph: Graph | null = kind === 'Compensation' ? definition.compensation : definition
  const parts = path.split('/')
  for (let at = 0; graph !== null; at += 1) {
    const part = parts[at] ?? ''
    const state: State | undefined = Object.hasOwn(graph.states, part) ? graph.states[part] : undefined
    if (state === undefined) return null
    if (at === parts.length - 1) return state
    if (state.type === 'parallel') {
      at += 1
      graph = state.branches.find(({ name }) => name === parts[at]) ?? null
    } else if (state.type === 'subjourney') graph = definition.subjourneys[state.ref] ?? null
    else return null
  }
  return null
}

/** The answer to the submission of a step: as the step says, from the data of the graph it stands in. */
export function stepShown(
  definition: Definition,
  run: Run,
  step: string,
): { readonly response: Projection | null; readonly context: Data } {
  const isStep = (path: string): boolean => path === step || path.endsWith(`/${step}`)
  const visit = run.trail.findLast(({ path, type }) => isStep(path) && (type === 'wait' || type === 'webhook'))
  const state = visit === undefined ? null : stateAt(definition, run.kind, visit.path)
  const response = state !== null && (state.type === 'wait' || state.type === 'webhook') ? state.response : null
  return { response, context: frameAround(run.root, visit?.path ?? '').context }
}

/** The innermost frame around a path that is still there. */
function frameAround(frame: Frame, path: string): Frame {
  const { rest } = frame
  const inside = rest.kind === 'forked' ? Object.values(rest.frames) : rest.kind === 'inside' ? [rest.frame] : []
  const next = inside.find(({ path: own }) => path.startsWith(`${own}/`))
  return next === undefined ? frame : frameAround(next, path)
}
