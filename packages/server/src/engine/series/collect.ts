/** The slots of all servers within a range, read in turns. This server's own come from memory where it still holds them. */
import { readDoc, slotOf, slotPrefix, type Instant, type Resolution, type Slot, type Tally } from '@curfew/core'
import type { SeriesContext } from './context.ts'
import { nextTurn } from '../kernel/turns.ts'

/** So many documents are read for one answer: seven servers for the longest range of the coarsest resolution. */
export const MAX_DOCUMENTS = 5_000
const A_TURN = 10
/** So much text is read in one turn: a slot may have 200 pairs of queue and type. */
const CHARS_A_TURN = 500_000

export interface Collected {
  readonly documents: number
  readonly servers: number
  /** Whether everything within the range was read. */
  readonly isWhole: boolean
  /** Where reading ended if not. */
  readonly until: Instant
}

/** `from`: a slot; `to`: exclusive. */
export async function collectSlots(
  context: SeriesContext,
  resolution: Resolution,
  from: Instant,
  to: Instant,
  see: (from: Instant, tally: Tally) => void,
): Promise<Collected> {
  // A slot that is saved meanwhile leaves the memory, and its document may have been passed over by then.
  const held = new Map(context.series.held(resolution))
  const servers = new Set<string>()
  let documents = 0
  let after = slotPrefix(from)
  let until = to
  for (let more = true; more;) {
    const page = await context.look((reads) => reads.docs(resolution.kind.kind, '', after, A_TURN))
    more = page.length === A_TURN
    let chars = 0
    for (const doc of page) {
      const { from: at, server } = slotOf(doc.id)
      if (at >= to || documents >= MAX_DOCUMENTS) {
        if (at < to) until = at
        more = false
        break
      }
      documents += 1
      servers.add(server)
      after = doc.id
      if (server === context.series.server && held.has(at)) continue
      chars += doc.body.length
      if (chars > CHARS_A_TURN) {
        chars = doc.body.length
        await nextTurn(context.host)
      }
      see(at, readDoc<Slot>(doc).tally)
    }
    if (more) await nextTurn(context.host)
  }
  for (const [at, { tally }] of held) {
    if (at < from || at >= to) continue
    servers.add(context.series.server)
    see(at, tally)
  }
  return { documents, servers: servers.size, isWhole: until === to, until }
}
