// Takes one row: starts its contenders, warms each up, then measures them in turn, round after round.
import { start } from './contenders.mjs'

/**
 * Answers the row's tables and the contenders that failed. A contender that cannot be started, or fails on the way, is
 * left out with the reason; the others go on.
 */
export async function takeRow(row, contenders, stage) {
  const settings = row.settings(stage.quick)
  const running = []
  const failed = []
  const found = new Map()
  const leaveOut = async (one, error) => {
    failed.push({ row: row.id, contender: one.id, reason: error.message.split('\n')[0] })
    stage.say(`${one.label} is left out of ${row.id}: ${error.message}`)
    found.delete(one.id)
    const place = running.findIndex(({ id }) => id === one.id)
    if (place >= 0) await running.splice(place, 1)[0].stop()
  }
  try {
    for (const contender of contenders.filter(row.who)) {
      for (const variant of row.variants?.(contender, settings) ?? [{}]) {
        const one = { ...contender, ...variant }
        try {
          stage.say(`${row.id}: ${one.label} warms up`)
          running.push(await start(contender, stage, variant))
          found.set(one.id, { contender: one.id, of: one.of, label: one.label, kind: one.kind, rounds: [] })
          await row.prepare(running.at(-1), settings)
        } catch (error) {
          await leaveOut(one, error)
        }
      }
    }
    const rounds = Math.min(stage.rounds, row.maxRounds ?? stage.rounds)
    for (let round = 0; round < rounds; round += 1) {
      stage.say(`${row.id}: round ${round + 1} of ${rounds}`)
      for (const one of inTurn(running, round)) {
        try {
          found.get(one.id).rounds.push(await row.once(one, settings))
        } catch (error) {
          await leaveOut(one, error)
        }
      }
    }
  } finally {
    for (const one of running) await one.stop()
  }
  return { tables: tablesOf(row, [...found.values()]), failed }
}

/** Each contender goes first in its turn. */
function inTurn(running, round) {
  const first = running.length === 0 ? 0 : round % running.length
  return [...running.slice(first), ...running.slice(0, first)]
}

/** One table per figure of the row; every value of every round stays in it. */
export function tablesOf(row, found) {
  return row.figures.map((figure) => ({
    ...figure,
    row: row.id,
    ...(row.note === undefined ? {} : { note: row.note }),
    entries: found.flatMap(({ contender, of, label, kind, rounds }) => {
      const taken = rounds.map((round) => round[figure.id]).filter((one) => one !== undefined)
      if (taken.length === 0) return []
      const entry = {
        contender,
        ...(of === undefined ? {} : { of }),
        label,
        kind,
        values: taken.map(({ value }) => value),
      }
      for (const cost of ['serverUs', 'clientUs'])
        if (taken.every((one) => typeof one[cost] === 'number')) entry[cost] = taken.map((one) => one[cost])
      return [entry]
    }),
  }))
}
