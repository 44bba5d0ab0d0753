/** A producer, an operator, and everything that goes wrong by itself. They speak to the server without a network. */
import type { Chance } from '../chance.ts'
import type { Moods } from '../actors/weather.ts'
import { messageOf, type Call, type Fields } from '../calls.ts'
import type { Scene } from './scene.ts'
import type { Plan, SimulatedWorker } from './simulated-worker.ts'
import { stepsFor } from './step-handlers.ts'

/** Says something to the server. False: it is down. */
export function ask(scene: Scene, call: Call): boolean {
  const { handler } = scene.server
  if (handler === null) return false
  scene.world.stir()
  const { method, url, body } = messageOf(call)
  void handler({
    method,
    url,
    headers: { 'content-type': 'application/json' },
    body: body === undefined ? '' : JSON.stringify(body),
    signal: new AbortController().signal,
  })
  return true
}

// ---- Jobs ----

/** Jobs one by one, or in bursts of short ones: only a backlog of those makes workers take jobs in advance. */
export function produce(scene: Scene, chance: Chance, overMs: number): void {
  if (chance.happens(0.5)) {
    enqueue(scene, chance, chance.between(5, 20), overMs, planFor)
    return
  }
  for (let bursts = chance.between(1, 3); bursts > 0; bursts -= 1)
    scene.later(chance.length(0, overMs, 50), () => {
      enqueue(scene, chance, chance.between(20, 60), chance.pick([0, 100, 500]), shortPlanFor)
    })
}

function enqueue(scene: Scene, chance: Chance, jobs: number, overMs: number, plan: (chance: Chance) => Plan): void {
  for (let n = 0; n < jobs; n += 1) {
    const call: Call = { verb: 'enqueue', body: jobFor(chance, plan(chance)) as (Call & { verb: 'enqueue' })['body'] }
    const send = (): void => {
      if (!ask(scene, call)) scene.later(500, send)
    }
    scene.later(overMs === 0 ? 0 : chance.length(0, overMs, 50), send)
    scene.tally.add('jobs')
  }
}

function jobFor(chance: Chance, plan: Plan): Fields {
  const isManual = chance.happens(0.2)
  const short = (least: number, most: number, probability: number, name: string): Fields =>
    chance.happens(probability) ? { [name]: chance.length(least, most) } : {}
  return {
    type: isManual ? 'sim.manual' : 'sim.auto',
    queue: 'default',
    args: [plan],
    ...short(500, 10_000, 0.8, 'timeout_ms'),
    ...(chance.happens(0.8) ? { grace_period_ms: chance.pick([0, 0, 250, 1_000, 3_000, 8_000]) } : {}),
    ...short(1_000, 6_000, 0.4, 'heartbeat_timeout_ms'),
    ...short(1_000, 8_000, 0.4, 'visibility_timeout_ms'),
    ...short(5_000, 40_000, 0.2, 'total_timeout_ms'),
    retry: {
      max_attempts: chance.between(1, 3),
      initial_interval_ms: chance.length(50, 1_000, 50),
      max_interval_ms: 2_000,
      on_exhaustion: chance.pick(['discard', 'dead_letter']),
    },
  }
}

function planFor(chance: Chance): Plan {
  const own = chance.fork()
  return {
    steps: [],
    ms: chance.weighted([
      [3, chance.length(0, 300, 10)],
      [3, chance.length(300, 4_000, 50)],
      [2, chance.length(4_000, 15_000)],
    ]),
    onAbort: chance.weighted([
      [4, 'polite'],
      [3, 'slow'],
      [2, 'deaf'],
      [1, 'returns'],
    ] as const),
    slowMs: chance.length(50, 8_000, 50),
    throws: chance.happens(0.15),
    checkpoints: chance.happens(0.2),
    signMs: chance.pick([0, 300, 1_000]),
    // A chance of its own: plans without steps stay what they are.
    ...(own.happens(0.4) ? { ms: own.length(0, 1_000, 50), steps: stepsFor(own) } : {}),
  }
}

function shortPlanFor(chance: Chance): Plan {
  return chance.happens(0.04)
    ? planFor(chance)
    : { ...planFor(chance), ms: chance.between(0, 15), checkpoints: false, steps: [] }
}

// ---- An operator ----

export function operate(scene: Scene, chance: Chance, everyMs: number, isOver: () => boolean): void {
  const next = (): void => {
    scene.later(chance.length(0, everyMs * 2, 50), () => {
      if (isOver()) return
      const call = orderFor(scene, chance)
      if (call !== null) {
        scene.tell(() => `operator: ${JSON.stringify(call)}`)
        scene.tally.add(`operator: ${call.verb === 'direct' ? call.word : call.verb}`)
        ask(scene, call)
      }
      next()
    })
  }
  next()
}

function orderFor({ ledger }: Scene, chance: Chance): Call | null {
  const workers = [...ledger.workers.values()].filter(({ isGone }) => !isGone)
  const jobs = [...ledger.jobs.values()]
  const active = jobs.filter(({ state }) => state === 'active')
  const over = jobs.filter(({ state }) => state === 'discarded' || state === 'cancelled')
  const word = chance.weighted([
    [5, 'cancel'],
    [3, 'retry'],
    [2, 'quiet'],
    [3, 'resume'],
    [0.4, 'terminate'],
  ] as const)
  switch (word) {
    case 'cancel':
      return active.length === 0 ? null : { verb: 'cancel', jobId: chance.pick(active).id }
    case 'retry': {
      if (over.length === 0) return null
      const { id, deadLetter } = chance.pick(over)
      return { verb: 'retry', jobId: id, fromDeadLetters: deadLetter && chance.happens(0.5) }
    }
    default:
      return workers.length === 0 ? null : { verb: 'direct', workerId: chance.pick(workers).id, word }
  }
}

// ---- What happens to workers ----

/** Something that the program of a worker does while a job is on its way to it. */
export function meddle(scene: Scene, chance: Chance, worker: SimulatedWorker | undefined): void {
  const act = (ms: number, what: 'quiet' | 'resume' | 'stop'): void => {
    scene.later(ms, () => {
      if (worker === undefined || worker.isGone || worker.isAsleep) return
      scene.tally.add(`own: ${what}`)
      worker[what]()
    })
  }
  if (chance.happens(0.15)) act(chance.between(0, 20), 'stop')
  else {
    act(chance.between(0, 20), 'quiet')
    act(chance.pick([1, 10, 25, 1_000, 4_000]), 'resume')
  }
}

export interface Troubles {
  readonly workerEveryMs: number
  readonly serverEveryMs: number
  /** How often its own program orders a worker to be quiet, to resume or to stop. */
  readonly ownEveryMs: number
  /** The same, in the moment in which a job is on its way to it. */
  readonly ownAtClaim: number
}

export function troubles(chance: Chance): Troubles {
  const every = (probability: number, least: number, most: number): number =>
    chance.happens(probability) ? chance.length(least, most) : 0
  return {
    workerEveryMs: every(0.7, 1_500, 10_000),
    serverEveryMs: every(0.4, 4_000, 15_000),
    ownEveryMs: every(0.8, 1_000, 6_000),
    ownAtClaim: chance.happens(0.4) ? 0.1 : 0,
  }
}

export function upset(
  scene: Scene,
  chance: Chance,
  moods: Moods,
  { workerEveryMs, serverEveryMs, ownEveryMs }: Troubles,
  isOver: () => boolean,
): void {
  const every = (averageMs: number, act: () => void): void => {
    if (averageMs === 0) return
    const next = (): void => {
      scene.later(chance.length(0, averageMs * 2, 50), () => {
        if (isOver()) return
        act()
        next()
      })
    }
    next()
  }
  const alive = (): SimulatedWorker[] => [...scene.ledger.workers.values()].filter(({ isGone }) => !isGone)
  const one = (act: (worker: SimulatedWorker) => void): void => {
    const workers = alive()
    if (workers.length > 0) act(chance.pick(workers))
  }
  every(workerEveryMs, () => {
    one((worker) => {
      const ms = chance.length(250, chance.pick([1_500, 8_000, 25_000]), 50)
      const what = chance.weighted([
        [2, 'crash'],
        [3, 'sleep'],
        [3, 'cut'],
        [3, 'swallow'],
      ] as const)
      if (what === 'crash') worker.crash()
      else if (what === 'swallow') worker.swallow(ms)
      else if (what === 'sleep') worker.sleep(ms)
      else worker.cutOff(ms)
    })
  })
  every(ownEveryMs, () => {
    one((worker) => {
      // A process that is asleep does nothing.
      if (worker.isAsleep) return
      const what = chance.weighted([
        [4, 'quiet'],
        [5, 'resume'],
        [1.5, 'stop'],
      ] as const)
      scene.tally.add(`own: ${what}`)
      worker[what]()
      // Two words in one breath.
      if (what === 'quiet' && chance.happens(0.4))
        scene.later(chance.length(0, 200, 5), () => {
          if (!worker.isGone && !worker.isAsleep) worker.resume()
        })
    })
  })
  every(serverEveryMs, () => {
    const how = chance.weighted([
      [4, 'inside'],
      [2, 'between'],
      [1, 'politely'],
    ] as const)
    scene.tally.add(`fault: server dies ${how}`)
    if (how === 'inside') moods.killAfter(chance.between(1, 14))
    else if (how === 'between') scene.server.die('killed')
    else scene.server.stop()
  })
}
