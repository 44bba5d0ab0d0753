// The arguments of `npm run bench -- compare`.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { HERE } from '../lib/processes.mjs'

/** Answers the options, or `{ problem }`: a sentence for the terminal. */
export function readOptions(args, rows, contendersOf) {
  let values
  try {
    values = parseArgs({
      args,
      options: {
        rounds: { type: 'string' },
        quick: { type: 'boolean', default: false },
        only: { type: 'string' },
        contenders: { type: 'string' },
        curfew: { type: 'string' },
        beside: { type: 'string' },
        record: { type: 'boolean', default: false },
        draw: { type: 'boolean', default: false },
      },
    }).values
  } catch (error) {
    return { problem: error.message }
  }
  const rounds = Number(values.rounds ?? (values.quick ? 2 : 5))
  if (!Number.isInteger(rounds) || rounds < 1) return { problem: `--rounds takes a whole number from 1 on.` }
  const [curfew, beside] = [resolve(values.curfew ?? HERE), values.beside === undefined ? null : resolve(values.beside)]
  for (const [flag, root] of [
    ['--curfew', curfew],
    ['--beside', beside],
  ])
    if (root !== null && !existsSync(join(root, 'packages/sdk/dist/index.js')))
      return { problem: `${flag} takes the folder of a checkout that was built (npm run build), not "${root}".` }
  const chosenRows = chosen('--only', values.only, rows)
  const chosenContenders = chosen('--contenders', values.contenders, contendersOf(beside))
  const problem = chosenRows.problem ?? chosenContenders.problem
  if (problem !== undefined) return { problem }
  return {
    rounds,
    quick: values.quick,
    curfew,
    beside,
    rows: chosenRows.found,
    contenders: chosenContenders.found,
    whole: values.only === undefined,
    /** A full run of every contender is kept for the record; of single rows only if that is asked for. */
    record:
      values.record ||
      (!values.quick &&
        rounds >= 5 &&
        [values.only, values.contenders, values.curfew, values.beside].every((one) => !one)),
    draw: values.draw,
  }
}

function chosen(flag, text, all) {
  if (text === undefined) return { found: all }
  const ids = text.split(',')
  const unknown = ids.filter((id) => !all.some((one) => one.id === id))
  if (unknown.length > 0)
    return { problem: `${flag} knows no ${unknown.join(', ')}. It takes: ${all.map(({ id }) => id).join(', ')}` }
  return { found: all.filter(({ id }) => ids.includes(id)) }
}
