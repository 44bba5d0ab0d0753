/** What the command takes. */
import { parseArgs } from 'node:util'

export interface Options {
  readonly store: 'sqlite' | 'postgres'
  readonly servers: number
  readonly seconds: number
  readonly seed: number
  /** How many runs, each with the next seed. */
  readonly runs: number
  /** Where journals and stories of violations are written. */
  readonly out: string
  /** Jobs per second, all producers together. */
  readonly rate: number
  /** Seconds between two faults, on average. */
  readonly every: number
}

export const HELP = `npm run chaos -- --store sqlite|postgres [options]

Runs real servers and workers, hurts them at random, and checks what clients saw.

  --store sqlite|postgres   required
  --servers N               servers on one PostgreSQL, 1 to 9 (default 3; SQLite has one)
  --minutes N               how long faults happen, 0.1 to 1440 (default 1)
  --seed S                  of the schedule of faults and of the load (default: drawn, and printed)
  --runs N                  so many runs, each with the next seed; then the figures of all (default 1)
  --rate N                  jobs per second, 1 to 1000 (default 40)
  --every S                 seconds between two faults, 0.1 to 600 (default 1)
  --out DIR                 journals and stories (default: chaos/out/<store>-<seed>)

Exit code 0: no violation. 1: violations, told in DIR/violations.md. 2: bad arguments.`

export class BadArguments extends Error {}

const KNOWN = ['store', 'servers', 'minutes', 'seed', 'runs', 'rate', 'every', 'out'] as const

export function readOptions(args: readonly string[], drawnSeed: number): Options | 'help' {
  const { values } = parse(args)
  if (values['help'] === true) return 'help'
  const { store } = values
  if (store !== 'sqlite' && store !== 'postgres')
    throw new BadArguments('--store must be sqlite or postgres, for example: npm run chaos -- --store sqlite')
  const seed = number(values, 'seed', drawnSeed, 0, 2 ** 32 - 1)
  const servers = number(values, 'servers', store === 'sqlite' ? 1 : 3, 1, 9)
  if (store === 'sqlite' && servers !== 1) throw new BadArguments('--servers must be 1 with --store sqlite.')
  return {
    store,
    servers,
    seconds: number(values, 'minutes', 1, 0.1, 1_440) * 60,
    seed,
    runs: Math.floor(number(values, 'runs', 1, 1, 1_000)),
    rate: number(values, 'rate', 40, 1, 1_000),
    every: number(values, 'every', 1, 0.1, 600),
    out: typeof values['out'] === 'string' ? values['out'] : `chaos/out/${store}-${String(seed)}`,
  }
}

function parse(args: readonly string[]): { values: Record<string, string | boolean | undefined> } {
  const options = Object.fromEntries(KNOWN.map((name) => [name, { type: 'string' as const }]))
  try {
    return parseArgs({ args: [...args], options: { ...options, help: { type: 'boolean' } } })
  } catch (error) {
    throw new BadArguments(`${(error as Error).message} Known options: ${KNOWN.map((name) => `--${name}`).join(', ')}.`)
  }
}

function number(
  values: Record<string, string | boolean | undefined>,
  name: string,
  otherwise: number,
  least: number,
  most: number,
): number {
  const text = values[name]
  if (text === undefined) return otherwise
  const value = Number(text)
  if (text === '' || !(value >= least && value <= most))
    throw new BadArguments(`--${name} must be between ${String(least)} and ${String(most)}, not "${String(text)}".`)
  return value
}
