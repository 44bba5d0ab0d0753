/**
 * Signs of life of a server that looks after runs, and what happens when another one's fail to come. Where this server is
 * the only one, whatever was being looked after when it started was left behind by the one before it.
 */
import {
  isDue,
  KEEPER,
  KEEPER_SIGN_MS,
  keeperFarewell,
  keeperSign,
  KEPT,
  readDoc,
  type Doc,
  type Kept,
  type Timer,
} from '@curfew/core'
import type { JourneysContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'
import { giveSign } from './saving.ts'
import { takeOver } from './steps.ts'

const A_PAGE = 200

export class Keepers {
  readonly #context: JourneysContext
  readonly #isKeeping: () => boolean
  #timer: Timer | null = null

  constructor(context: JourneysContext, isKeeping: () => boolean) {
    this.#context = context
    this.#isKeeping = isKeeping
  }

  /** This server has something to do for a run: from now on it gives signs of life. */
  keeping(): void {
    if (!this.#context.store.shared || this.#timer !== null || this.#context.closing.aborted) return
    this.#timer = this.#context.host.setTimer(KEEPER_SIGN_MS, () => {
      this.#timer = null
      void this.#sign()
    })
  }

  async #sign(): Promise<void> {
    if (!this.#isKeeping()) return
    await this.#context.run({ name: 'journey', run: (unit) => giveSign(this.#context, unit) }).catch(() => {})
    this.keeping()
  }

  /** What it was doing can be taken up at once. */
  async close(): Promise<void> {
    this.#timer?.cancel()
    const { store, journeys } = this.#context
    if (!store.shared) return
    await this.#context
      .run({
        name: 'journey',
        run: async (unit) => {
          const keeper = await unit.loadedDoc(KEEPER, journeys.server)
          if (keeper !== null) unit.putDoc(KEEPER, keeper.id, keeperFarewell(keeper.id, unit.now))
        },
      })
      .catch(() => {})
  }

  async takeOver(server: string): Promise<void> {
    await this.#takeFrom(`${server}/`)
    await this.#context.run({
      name: 'journey',
      run: async (unit) => {
        const left = await unit.docsUnder(KEPT, `${server}/`)
        const keeper = await unit.loadedDoc(KEEPER, server)
        if (keeper !== null && left.length === 0) unit.putDoc(KEEPER, server, null)
      },
    })
  }

  /** What was left behind before this server started: everything where it is the only one, else what nobody vouches for. */
  async takeUp(): Promise<void> {
    const { store } = this.#context
    if (!store.shared) return this.#takeFrom('')
    for (let after: string | null = null; ;) {
      const [doc]: readonly Doc[] = await store.docs(KEPT.kind, '', after, 1)
      if (doc === undefined) return
      const { server } = readDoc<Kept>(doc)
      if ((await store.doc(KEEPER.kind, server)) === null) await this.takeOver(server)
      // Behind everything of this server: a slash sorts before what follows it here.
      after = `${server}0`
    }
  }

  async #takeFrom(prefix: string): Promise<void> {
    const { store, journeys } = this.#context
    for (let after: string | null = null, more = true; more;) {
      const page = await store.docs(KEPT.kind, prefix, after, A_PAGE)
      for (const doc of page) {
        const { server, run } = readDoc<Kept>(doc)
        if (server !== journeys.server) await this.#context.run(takeOver(this.#context, server, run))
      }
      more = page.length === A_PAGE
      after = page.at(-1)?.id ?? null
    }
  }
}

/** No sign of life came. Whoever notices takes over, and has as long as any other to show that it lives. */
export function wakeKeeper(context: JourneysContext, unit: Unit, id: string): void {
  const keeper = unit.doc(KEEPER, id)
  if (keeper === null || !isDue(keeper.until, unit.now)) return
  const { journeys } = context
  if (id === journeys.server && !context.closing.aborted && !journeys.isKeeping) {
    unit.putDoc(KEEPER, id, null)
    return
  }
  unit.putDoc(KEEPER, id, keeperSign(id, unit.now))
  if (id !== journeys.server)
    unit.afterwards(() => {
      journeys.abandoned(id)
    })
}
