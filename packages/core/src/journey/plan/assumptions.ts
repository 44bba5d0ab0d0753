/** Assumptions about a journey that does not run yet: how long its states take, and where its choices go. */
import type { Millis } from '../../time/clock.ts'
import type { Definition, Graph, State, StateId } from '../definition.ts'

/** How long a state takes; `forever`: until something cuts it off. */
export type Taking = Millis | 'forever'

export interface Assumptions {
  /** By path (`checks/risk/score`), by bare id, or `*` for every call, job and step. Left out: no time at all. */
  readonly takes: Readonly<Record<string, Taking>>
  /** Where a choice goes, visit by visit, by path or bare id; the last one counts for all that follow. */
  readonly chooses: Readonly<Record<string, readonly StateId[]>>
}

/** The path counts before the bare id. */
export function assumedFor<T>(said: Readonly<Record<string, T>>, path: string): T | undefined {
  for (const name of [path, path.split('/').at(-1) ?? path]) if (Object.hasOwn(said, name)) return said[name]
  return undefined
}

export interface StatePlace {
  readonly path: string
  readonly state: State
}

/** Every state, those of branches and subjourneys under the state that leads into them. */
export function placesIn(definition: Definition, graph: Graph = definition, prefix = ''): readonly StatePlace[] {
  return Object.entries(graph.states).flatMap(([id, state]) => {
    const path = prefix === '' ? id : `${prefix}/${id}`
    const here = { path, state }
    if (state.type === 'parallel')
      return [here, ...state.branches.flatMap((branch) => placesIn(definition, branch, `${path}/${branch.name}`))]
    const inner = state.type === 'subjourney' ? definition.subjourneys[state.ref] : undefined
    // One that leads into itself is listed once.
    if (inner === undefined || prefix.split('/').includes(id)) return [here]
    return [here, ...placesIn(definition, inner, path)]
  })
}

/** Assumptions about states that do not exist, or that cannot hold. */
export function mistakesIn(definition: Definition, { takes, chooses }: Assumptions): readonly string[] {
  const places = placesIn(definition)
  const meant = (name: string): readonly State[] =>
    places.filter(({ path }) => path === name || path.endsWith(`/${name}`)).map(({ state }) => state)
  const mistakes: string[] = []
  for (const name of Object.keys(takes)) {
    const states = meant(name)
    if (name === '*') continue
    if (states.length === 0) mistakes.push(`${name} is not a state of ${definition.name}.`)
    else if (!states.some(takesTime)) mistakes.push(`${name} takes no time of its own: it is a ${kindOf(states[0])}.`)
  }
  for (const [name, nexts] of Object.entries(chooses)) {
    const choices = meant(name).flatMap((state) => (state.type === 'choice' ? [state] : []))
    if (choices.length === 0) mistakes.push(`${name} is not a choice of ${definition.name}.`)
    const ways = choices.flatMap((choice) => [...choice.choices.map(({ next }) => next), choice.default ?? ''])
    for (const next of nexts)
      if (choices.length > 0 && !ways.includes(next)) mistakes.push(`${name} does not lead to ${next}.`)
  }
  return mistakes
}

/** Whether the run waits for it. */
export function takesTime(state: State): boolean {
  switch (state.type) {
    case 'httpCall':
    case 'job':
      return state.mode !== 'notify'
    case 'wait':
    case 'webhook':
    case 'timer':
      return true
    default:
      return false
  }
}

const kindOf = (state: State | undefined): string =>
  state?.type === 'httpCall' || state?.type === 'job' ? 'task in mode notify' : (state?.type ?? 'state')
