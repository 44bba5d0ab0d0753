/**
 * Counts what this server commits, and saves it every few seconds as documents of its own (`core/series`). Nothing is
 * written per job: counting changes a tally in memory, one ordinary command saves it. Each life of a server has documents
 * of its own, which no other writes; a reader adds them up. A slot is always saved whole, so saving it again changes
 * nothing. What is lost by a crash is what was counted since the last save.
 *
 * Any server removes what is older than its resolution is kept: the server that wrote it may be gone.
 */
import {
  addOutcome,
  ALWAYS_IDLE,
  before,
  countTimeout,
  countTransition,
  emptyCell,
  fold,
  FOLDED,
  MAX_PAIRS,
  OjsError,
  pairKey,
  RESOLUTIONS,
  slotAt,
  slotId,
  slotPrefix,
  UNQUEUED,
  type Cell,
  type Doc,
  type Instant,
  type Resolution,
  type Slot,
  type Tally,
  type Timer,
  type Transition,
} from '@curfew/core'
import type { Context } from '../kernel/context.ts'
import type { Committed } from '../kernel/feature.ts'
import { SlotCache } from './slot-cache.ts'

/** How long what is counted may wait for its save. */
export const SAVE_EVERY_MS = 10_000
const RETRY_MS = 1_000
/** How many old slots of a resolution are removed with one save. */
const MAX_REMOVED = 50
const A_LOOK = 5

interface Kept extends Slot {
  isSaved: boolean
}

type Parts = Pick<Context, 'host' | 'run' | 'look' | 'log' | 'now'> & { readonly journeys: { readonly server: string } }

export class SeriesKeeper {
  /** Saved slots of all servers that were read lately. */
  readonly slots = new SlotCache()
  readonly #context: Parts
  /** Since the last roll, of one minute. */
  #fresh: Tally = {}
  #freshPairs = 0
  #freshFrom: Instant | null = null
  #lastQueue = ''
  #lastType = ''
  #lastCell: Cell | null = null
  /** The current slot of each resolution, and those before it that are not saved. */
  readonly #slots = new Map<Resolution, Map<Instant, Kept>>(RESOLUTIONS.map((each) => [each, new Map<Instant, Kept>()]))
  #timer: Timer | null = null
  #saving: Promise<void> = Promise.resolve()
  #removedFor: Instant | null = null
  #isClosed = false

  constructor(context: Parts) {
    this.#context = context
  }

  get server(): string {
    return this.#context.journeys.server
  }

  committed({ transitions, ranOut, now }: Pick<Committed, 'transitions' | 'ranOut' | 'now'>): void {
    if (transitions.length === 0 && ranOut.length === 0) return
    this.#at(now)
    for (const transition of transitions) {
      const cell = this.#cellOf(transition)
      if (cell !== null) countTransition(cell, transition, now)
    }
    for (const { kind, overshootMs } of ranOut) countTimeout(this.#cell(UNQUEUED), kind, kind, overshootMs)
    this.#arm()
  }

  /** A report was refused because its attempt was over. */
  late(now: Instant): void {
    this.#at(now)
    addOutcome(this.#cell(UNQUEUED), 'late', 1)
    this.#arm()
  }

  /** What this server has counted and holds in memory, saved or not. */
  held(resolution: Resolution): ReadonlyMap<Instant, Slot> {
    this.#roll()
    return this.#slots.get(resolution) ?? new Map<Instant, Slot>()
  }

  /** Saves what is not saved yet. */
  async save(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    this.#saving = this.#saving.then(() => this.#save())
    await this.#saving
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.save()
  }

  /** Everything was removed from the store. */
  forget(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#fresh = {}
    this.#freshPairs = 0
    this.#freshFrom = null
    this.#lastCell = null
    for (const slots of this.#slots.values()) slots.clear()
    this.slots.clear()
  }

  #cellOf({ job }: Transition): Cell | null {
    // A row that retention removes has been counted when it ended.
    if (job === null) return null
    // Jobs that come together are mostly of a kind: for them no key is put together and hashed.
    const { queue, type } = job
    if (this.#lastCell !== null && this.#lastQueue === queue && this.#lastType === type) return this.#lastCell
    this.#lastCell = this.#cell(pairKey(queue, type))
    this.#lastQueue = queue
    this.#lastType = type
    return this.#lastCell
  }

  #cell(key: string): Cell {
    let cell = this.#fresh[key]
    if (cell === undefined && this.#freshPairs >= MAX_PAIRS) cell = this.#fresh[FOLDED] ??= emptyCell()
    if (cell === undefined) {
      cell = this.#fresh[key] = emptyCell()
      this.#freshPairs += 1
    }
    return cell
  }

  #at(now: Instant): void {
    const from = slotAt(now, FINEST)
    if (this.#freshFrom !== null && this.#freshFrom !== from) this.#roll()
    this.#freshFrom = from
  }

  /** Adds what is fresh to the slots it belongs to. */
  #roll(): void {
    const at = this.#freshFrom
    if (at === null || this.#freshPairs === 0) return
    for (const [resolution, slots] of this.#slots) {
      const from = slotAt(at, resolution)
      const slot = slots.get(from) ?? { from, tally: {}, isSaved: false }
      fold(slot.tally, this.#fresh)
      slot.isSaved = false
      slots.set(from, slot)
    }
    this.#fresh = {}
    this.#freshPairs = 0
    this.#lastCell = null
  }

  #arm(ms = SAVE_EVERY_MS): void {
    if (this.#timer !== null || this.#isClosed) return
    this.#timer = this.#context.host.setTimer(ms, () => void this.save(), ALWAYS_IDLE)
  }

  async #save(): Promise<void> {
    this.#roll()
    const unsaved: { readonly resolution: Resolution; readonly slot: Kept }[] = []
    for (const [resolution, slots] of this.#slots)
      for (const slot of slots.values()) if (!slot.isSaved) unsaved.push({ resolution, slot })
    if (unsaved.length === 0) return
    // What is counted from here on belongs to the next save.
    for (const { slot } of unsaved) slot.isSaved = true
    try {
      await this.#write(unsaved)
      this.#dropPast()
    } catch (error) {
      for (const { slot } of unsaved) slot.isSaved = false
      // A store that cannot serve has been logged already.
      if (!(error instanceof OjsError)) this.#context.log.error({ err: error }, 'series were not saved; trying again')
      this.#arm(RETRY_MS)
    }
  }

  async #write(slots: readonly { readonly resolution: Resolution; readonly slot: Slot }[]): Promise<void> {
    const minute = slotAt(this.#context.now(), FINEST)
    const old = minute === this.#removedFor ? [] : await this.#oldSlots()
    const own = slots.map(({ resolution, slot }) => ({ ...resolution, slot, id: slotId(slot.from, this.server) }))
    await this.#context.run({
      name: 'series',
      needs: { docs: [...own, ...old].map(({ kind, id }) => ({ kind: kind.kind, id })) },
      run: (unit) => {
        for (const { kind, id, slot } of own) unit.putDoc(kind, id, { from: slot.from, tally: slot.tally })
        for (const { kind, id } of old) if (unit.doc(kind, id) !== null) unit.putDoc(kind, id, null)
      },
    })
    this.#removedFor = minute
  }

  /** Slots of any server that are older than they are kept, a few of them. */
  async #oldSlots(): Promise<{ readonly kind: Resolution['kind']; readonly id: string }[]> {
    const old: { readonly kind: Resolution['kind']; readonly id: string }[] = []
    for (const { kind, keptMs } of RESOLUTIONS) {
      const end = slotPrefix(before(this.#context.now(), keptMs))
      let after: string | null = null
      for (let found = 0; found < MAX_REMOVED; found += A_LOOK) {
        const page: Doc[] = await this.#context.look((reads) => reads.docs(kind.kind, '', after, A_LOOK))
        for (const { id } of page) if (id < end) old.push({ kind, id })
        const last: string | undefined = page.at(-1)?.id
        if (page.length < A_LOOK || last === undefined || last >= end) break
        after = last
      }
    }
    return old
  }

  /** Of each resolution only the newest slot goes on, once the others are saved. */
  #dropPast(): void {
    for (const slots of this.#slots.values()) {
      const newest = Math.max(0, ...slots.keys())
      for (const [from, { isSaved }] of slots) if (isSaved && from !== newest) slots.delete(from)
    }
  }
}

const FINEST = RESOLUTIONS[0] as Resolution
