/**
 * Rules about graphs as a whole: every way leads somewhere, every state can be reached, nothing turns in a circle without
 * ever resting, no two steps that are open at once share a name.
 *
 * Graphs may have thousands of states: nothing here goes deeper with the length of a way, only with nesting.
 */
import { pointerTo } from '../../diagnostics.ts'
import type { Definition, Graph, State, StateId } from '../definition.ts'
import type { GraphReading, Reading } from './reading.ts'

export function checkGraphs(reading: Reading, definition: Definition): void {
  const before = reading.found.errors.length
  for (const graph of reading.graphs) checkTargets(reading, graph)
  checkReferences(reading, definition)
  // What follows looks at graphs that hold together.
  if (reading.found.errors.length > before) return
  const inside = insidesOf(definition)
  for (const graph of reading.graphs) {
    warnOfUnreached(reading, graph)
    checkLoops(reading, inside, graph)
    checkSteps(reading, inside, graph)
  }
  if (definition.kind === 'Journey' && definition.startMode === 'sync') warnOfSlowStart(reading, definition, inside)
}

/** What there is inside a subjourney. It is looked at once, however often and on whatever ways it is referred to. */
interface Insides {
  readonly rests: (ref: string) => boolean
  readonly steps: (ref: string) => readonly StateId[]
  readonly stretch: (ref: string) => Stretch
}

function insidesOf({ subjourneys }: Definition): Insides {
  const once = <T>(nothing: T, look: (graph: Graph, ref: string) => T): ((ref: string) => T) => {
    const seen = new Map<string, T>()
    return (ref) => {
      const graph = Object.hasOwn(subjourneys, ref) ? subjourneys[ref] : undefined
      const found = seen.get(ref) ?? (graph === undefined ? nothing : look(graph, ref))
      seen.set(ref, found)
      return found
    }
  }
  const inside: Insides = {
    rests: once(false, (graph) => Object.values(graph.states).some((state) => rests(state, inside))),
    steps: once([], (graph) => [...new Set(stepsIn(graph, '', inside).map(({ id }) => id))]),
    stretch: once({ timers: [], passes: true }, (graph, ref) =>
      firstStretch(graph, pointerTo('/spec/subjourneys', ref), inside),
    ),
  }
  return inside
}

/** Where a state may lead. */
export function successors(state: State): readonly StateId[] {
  switch (state.type) {
    case 'choice':
      return [...state.choices.map(({ next }) => next), ...(state.default === null ? [] : [state.default])]
    case 'wait':
    case 'webhook':
      return state.onTimeout === null ? [state.next] : [state.next, state.onTimeout]
    case 'succeed':
    case 'fail':
      return []
    default:
      return [state.next]
  }
}

const stateAt = (path: string, id: StateId): string => pointerTo(`${path}/states`, id)

function checkTargets({ found }: Reading, { ids, targets }: GraphReading): void {
  for (const { id, path, what } of targets)
    if (!ids.has(id))
      found.error('GRAPH-1', path, `${what} leads to ${JSON.stringify(id)}, which is not a state of this graph.`)
}

function warnOfUnreached({ found, schedules }: Reading, { path, start, ids, states }: GraphReading): void {
  // Where a state leads that could not be read is not known.
  if (states.size < ids.size) return
  // Scheduled runs begin in the definition's own graph.
  const reached = new Set([start, ...(path === '/spec' ? schedules.map((schedule) => schedule.start) : [])])
  for (const id of reached) {
    const state = states.get(id)
    if (state !== undefined) for (const next of successors(state)) reached.add(next)
  }
  for (const id of states.keys())
    if (!reached.has(id)) found.warn('GRAPH-1', stateAt(path, id), `Nothing leads to the state ${id}.`, 'key')
}

// ---- Subjourneys ----

/** A run is in one state per level, and each is inside the other. */
const MAX_SUBJOURNEY_DEPTH = 16

/** Every subjourney is used, none by itself (a run would go deeper and deeper), and not too many within each other. */
function checkReferences({ found, graphs }: Reading, { subjourneys }: Definition): void {
  const used = new Set<string>()
  for (const { states } of graphs)
    for (const state of states.values()) if (state.type === 'subjourney') used.add(state.ref)
  const refs = new Map(Object.entries(subjourneys).map(([id, graph]) => [id, refsIn(graph)]))
  const inLoops = new Set(loopsOf(refs).flat())
  const depths = new Map<string, number>()
  const seen = new Set<string>()
  const depthOf = (ref: string): number => depths.get(ref) ?? 0
  for (const id of refs.keys())
    walk(id, refs, seen, (done) => depths.set(done, 1 + Math.max(0, ...new Set(refs.get(done)?.map(depthOf)))))
  for (const id of refs.keys()) {
    const path = pointerTo('/spec/subjourneys', id)
    if (!used.has(id)) found.warn('GRAPH-1', path, `Nothing refers to the subjourney ${id}.`, 'key')
    if (inLoops.has(id)) found.error('GRAPH-2', path, `The subjourney ${id} leads into itself.`, 'key')
    else if (depthOf(id) === MAX_SUBJOURNEY_DEPTH + 1)
      found.error(
        'GRAPH-2',
        path,
        `There are more than ${String(MAX_SUBJOURNEY_DEPTH)} subjourneys within each other.`,
        'key',
      )
  }
}

function refsIn(graph: Graph | undefined): readonly string[] {
  return Object.values(graph?.states ?? {}).flatMap((state) =>
    state.type === 'subjourney' ? [state.ref] : state.type === 'parallel' ? state.branches.flatMap(refsIn) : [],
  )
}

// ---- Busy loops ----

const RESTFUL: readonly State['type'][] = ['httpCall', 'job', 'wait', 'webhook', 'timer']

function checkLoops({ found, kind }: Reading, inside: Insides, { path, states }: GraphReading): void {
  const busy = new Map([...states].filter(([, state]) => !rests(state, inside)))
  for (const loop of loopsOf(new Map([...busy].map(([id, state]) => [id, successors(state)])))) {
    const [first = ''] = loop
    const within = new Set(loop)
    const canLeave = loop.some((id) => {
      const state = busy.get(id)
      return state?.type === 'choice' && successors(state).some((next) => !within.has(next))
    })
    const names = loop.length > 5 ? `${loop.slice(0, 5).join(', ')}, …` : loop.join(', ')
    const message = `Nothing on this loop waits for anything: ${names}.`
    if (kind === 'Api' && !canLeave)
      found.error('GRAPH-2', stateAt(path, first), `${message} And nothing leads out of it.`, 'key')
    else found.warn('GRAPH-2', stateAt(path, first), message, 'key')
  }
}

/** A call, a job, a step or a timer is on the way. */
function rests(state: State, inside: Insides): boolean {
  if (state.type === 'parallel')
    return state.branches.some(({ states }) => Object.values(states).some((inner) => rests(inner, inside)))
  return state.type === 'subjourney' ? inside.rests(state.ref) : RESTFUL.includes(state.type)
}

/** What leads back to itself, together with all that is met on the way (strongly connected components). */
function loopsOf(leads: ReadonlyMap<string, readonly string[]>): string[][] {
  const ways = new Map([...leads].map(([id, nexts]) => [id, nexts.filter((next) => leads.has(next))]))
  const places = new Map([...ways.keys()].map((id, place) => [id, place]))
  const back = new Map([...ways.keys()].map((id) => [id, [] as string[]]))
  for (const [id, nexts] of ways) for (const next of nexts) back.get(next)?.push(id)
  const left = new Set<string>()
  const finished: string[] = []
  for (const id of ways.keys()) walk(id, ways, left, (done) => finished.push(done))
  left.clear()
  const loops: string[][] = []
  for (const id of finished.reverse()) {
    const loop: string[] = []
    walk(id, back, left, (done) => loop.push(done))
    if (loop.length > 1 || ways.get(id)?.includes(id) === true)
      loops.push(loop.sort((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0)))
  }
  return loops
}

/** Depth first, without recursion; one is done when all that follows it is. */
function walk(
  from: string,
  ways: ReadonlyMap<string, readonly string[]>,
  seen: Set<string>,
  done: (id: string) => void,
): void {
  if (seen.has(from)) return
  seen.add(from)
  const stack = [{ id: from, at: 0 }]
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const next = ways.get(top.id)?.[top.at]
    top.at += 1
    if (next === undefined) done(stack.pop()?.id ?? '')
    else if (!seen.has(next)) {
      seen.add(next)
      stack.push({ id: next, at: 0 })
    }
  }
}

// ---- Steps ----

/** Branches are under way together, and a step is found by its name alone. */
function checkSteps({ found }: Reading, inside: Insides, { path, states }: GraphReading): void {
  for (const [id, state] of states) {
    if (state.type !== 'parallel') continue
    const open = new Set<StateId>()
    for (const [index, branch] of state.branches.entries()) {
      const steps = stepsIn(branch, pointerTo(`${stateAt(path, id)}/parallel/branches`, index), inside)
      for (const step of steps)
        if (open.has(step.id))
          found.error('WAIT-2', step.path, `Another branch has a step ${step.id}, and both may be open at once.`, 'key')
      for (const step of steps) open.add(step.id)
    }
  }
}

function stepsIn(
  graph: Graph,
  path: string,
  inside: Insides,
): readonly { readonly id: StateId; readonly path: string }[] {
  return Object.entries(graph.states).flatMap(([id, state]) => {
    const at = stateAt(path, id)
    if (state.type === 'wait' || state.type === 'webhook') return [{ id, path: at }]
    if (state.type === 'subjourney') return inside.steps(state.ref).map((step) => ({ id: step, path: at }))
    if (state.type !== 'parallel') return []
    return state.branches.flatMap((branch, index) =>
      stepsIn(branch, pointerTo(`${at}/parallel/branches`, index), inside),
    )
  })
}

// ---- Starting while the caller waits ----

const LONG_START_MS = 60_000

/** The timers that come before the first call, job or wait, and whether the end can come before them. */
interface Stretch {
  readonly timers: readonly string[]
  readonly passes: boolean
}

function warnOfSlowStart({ found, budgetMs }: Reading, definition: Definition, inside: Insides): void {
  for (const path of firstStretch(definition, '/spec', inside).timers)
    found.warn('EXEC-4', path, `The start is answered only after this timer; write startMode: async.`, 'key')
  if (definition.execution === null || budgetMs <= LONG_START_MS) return
  const message = `A start may keep its caller waiting for ${String(budgetMs / 1000)} s; write startMode: async.`
  found.warn('EXEC-4', '/spec/execution/maxDurationSec', message)
}

function firstStretch(graph: Graph, path: string, inside: Insides): Stretch {
  const timers = new Set<string>()
  let passes = false
  const reached = new Set([graph.start])
  for (const id of reached) {
    const state = Object.hasOwn(graph.states, id) ? graph.states[id] : undefined
    if (state === undefined || state.type === 'wait' || state.type === 'webhook') continue
    if (state.type === 'succeed' || state.type === 'fail') passes = true
    if (state.type === 'timer') timers.add(stateAt(path, id))
    const inner = stretchesIn(state, stateAt(path, id), inside)
    for (const stretch of inner) for (const timer of stretch.timers) timers.add(timer)
    const needsAll = state.type !== 'parallel' || state.join.strategy === 'allOf'
    const goesOn = needsAll ? inner.every((stretch) => stretch.passes) : inner.some((stretch) => stretch.passes)
    if (goesOn) for (const next of successors(state)) reached.add(next)
  }
  return { timers: [...timers], passes }
}

function stretchesIn(state: State, path: string, inside: Insides): readonly Stretch[] {
  if (state.type === 'subjourney') return [inside.stretch(state.ref)]
  if (state.type !== 'parallel') return []
  return state.branches.map((branch, index) =>
    firstStretch(branch, pointerTo(`${path}/parallel/branches`, index), inside),
  )
}
