import { describe, expect, it } from 'vitest'
import { inPieces, inTurns, MAX_PER_TURN, Pace } from './turns.ts'

/** A host that counts the turns it was asked for. */
function countingHost(): { turns: number; defer(run: () => void): void } {
  return {
    turns: 0,
    defer(run) {
      this.turns += 1
      void Promise.resolve().then(run)
    },
  }
}

describe('work in turns', () => {
  it('handles no more entries in one turn than its bound', async () => {
    const host = countingHost()
    const perTurn = new Map<number, number>()
    const entries = Array.from({ length: 1_000 }, (_, n) => n)
    const made = await inTurns(host, entries, (entry) => {
      perTurn.set(host.turns, (perTurn.get(host.turns) ?? 0) + 1)
      return entry * 2
    })
    expect(made).toEqual(entries.map((entry) => entry * 2))
    expect(Math.max(...perTurn.values())).toBe(MAX_PER_TURN)
  })

  it('takes no turn for a short list', async () => {
    const host = countingHost()
    await inTurns(host, [1, 2, 3], (entry) => entry)
    expect(host.turns).toBe(0)
  })

  it('drives a generator with one turn for each piece', async () => {
    const host = countingHost()
    function* work(): Generator<void, string> {
      yield
      yield
      return 'made'
    }
    expect(await inPieces(host, work())).toBe('made')
    expect(host.turns).toBe(2)
  })

  it('gives up the turn after several entries at once, as soon as they are its share', async () => {
    const host = countingHost()
    const pace = new Pace(host, 10)
    expect([pace.did(4), pace.did(5), host.turns]).toEqual([undefined, undefined, 0])
    await pace.did(1)
    expect([pace.did(9), host.turns]).toEqual([undefined, 1])
  })
})
