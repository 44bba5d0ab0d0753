/**
 * Signs of life of a server that looks after runs, and what happens when another one's fail to come. Where this server is
 * the only one, whatever was being looked after when it started was left behind by the one before it.
 */
import {
  isDue,
  RUN_OWNER,
  OWNER_SIGN_MS,
  ownerFarewell,
  ownerSign,
  OWNED_RUN,
  readDoc,
  type Doc,
  type OwnedRun,
  type Timer,
} from '@curfew/core'
import type { JourneysContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'
import { giveSign } from './saving.ts'
import { takeOver } from './steps.ts'

const A_PAGE = 200

export class RunOwners {
  readonly #context: JourneysContext
  readonly #isOwner: () => boolean
  #timer: Timer | null = null

  constructor(context: JourneysContext, isOwner: () => boolean) {
    this.#context = context
    this.#isOwner = isOwner
  }

  /** This server has something to do for a run: from now on it gives signs of life. */
  owning(): void {
    if (!this.#context.store.shared || this.#timer !== null || this.#context.closing.aborted) return
    this.#timer = this.#context.host.setTimer(OWNER_SIGN_MS, () => {
      this.#timer = null
      void this.#sign()
    })
  }

  async #sign(): Promise<void> {
    if (!this.#isOwner()) return
    await this.#context.run({ name: 'journey', run: (unit) => giveSign(this.#context, unit) }).catch(() => {})
    this.owning()
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
          const owner = await unit.loadedDoc(RUN_OWNER, journeys.server)
          if (owner !== null) unit.putDoc(RUN_OWNER, owner.id, ownerFarewell(owner.id, unit.now))
        },
      })
      .catch(() => {})
  }

  async takeOver(server: string): Promise<void> {
    await this.#takeFrom(`${server}/`)
    await this.#context.run({
      name: 'journey',
      run: async (unit) => {
        const left = await unit.docsUnder(OWNED_RUN, `${server}/`)
        const owner = await unit.loadedDoc(RUN_OWNER, server)
        if (owner !== null && left.length === 0) unit.putDoc(RUN_OWNER, server, null)
      },
    })
  }

  /** What was left behind before this server started: everything where it is the only one, else the runs of servers that give no sign of life. */
  async takeUp(): Promise<void> {
    const { store } = this.#context
    if (!store.shared) return this.#takeFrom('')
    for (let after: string | null = null; ;) {
      const [doc]: readonly Doc[] = await store.docs(OWNED_RUN.kind, '', after, 1)
      if (doc === undefined) return
      const { server } = readDoc<OwnedRun>(doc)
      if ((await store.doc(RUN_OWNER.kind, server)) === null) await this.takeOver(server)
      // Behind everything of this server: a slash sorts before what follows it here.
      after = `${server}0`
    }
  }

  async #takeFrom(prefix: string): Promise<void> {
    const { store, journeys } = this.#context
    for (let after: string | null = null, more = true; more;) {
      const page = await store.docs(OWNED_RUN.kind, prefix, after, A_PAGE)
      for (const doc of page) {
        const { server, run } = readDoc<OwnedRun>(doc)
        if (server !== journeys.server) await this.#context.run(takeOver(this.#context, server, run))
      }
      more = page.length === A_PAGE
      after = page.at(-1)?.id ?? null
    }
  }
}

/** No sign of life came. The server that notices takes over, and has as long as any other to show that it lives. */
export function wakeRunOwner(context: JourneysContext, unit: Unit, id: string): void {
  const owner = unit.doc(RUN_OWNER, id)
  if (owner === null || !isDue(owner.until, unit.now)) return
  const { journeys } = context
  if (id === journeys.server && !context.closing.aborted && !journeys.isOwner) {
    unit.putDoc(RUN_OWNER, id, null)
    return
  }
  unit.putDoc(RUN_OWNER, id, ownerSign(id, unit.now))
  if (id !== journeys.server)
    unit.afterwards(() => {
      journeys.abandoned(id)
    })
}
