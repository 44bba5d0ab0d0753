/** The slots of all servers within a range, read in turns. This server's own come from memory where it still holds them. */
import { packTally, slotOf, slotPrefix, type Instant, type PackedTally, type Resolution } from '@curfew/core'
import type { SeriesContext } from './context.ts'
import { nextTurn } from '../kernel/turns.ts'

/** So many documents are read for one answer: seven servers for the longest range of the coarsest resolution. */
export const MAX_DOCUMENTS = 5_000
const A_TURN = 20
/** So much text is parsed in one turn: a slot may have 200 pairs of queue and type. */
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
  see: (from: Instant, tally: PackedTally) => void,
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
      const known = context.series.slots.known(doc)
      if (known !== null) {
        see(at, known)
        continue
      }
      chars += doc.body.length
      if (chars > CHARS_A_TURN) {
        chars = doc.body.length
        await nextTurn(context.host)
      }
      see(at, context.series.slots.parsed(doc))
    }
    if (more) await nextTurn(context.host)
  }
  for (const [at, { tally }] of held) {
    if (at < from || at >= to) continue
    servers.add(context.series.server)
    see(at, packTally(tally))
  }
  return { documents, servers: servers.size, isWhole: until === to, until }
}
