/** `curfew journey start | status | result | submit | cancel | list`: runs on a server somewhere. */
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { SettingsError } from '../settings.ts'
import { EXIT } from './frame/exit.ts'
import type { Call } from './frame/command.ts'
import { confirmed } from './frame/confirm.ts'
import { wholeOf, type Flags, type Terminal } from './frame/flags.ts'
import { Remote, refusal, timeoutOf, type Answer } from './frame/remote.ts'
import { momentsIn, type Moments } from './frame/rows.ts'
import { listText, outcomeText, statusText, type OutcomeView, type StatusView } from './journey-text.ts'

const RUNS = '/api/v1/journeys'
const runPath = (id = ''): string => `${RUNS}/${encodeURIComponent(id)}`

export async function start({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const version = flags.text('version')
  const query = version === undefined ? '' : `?version=${encodeURIComponent(version)}`
  const untilMs = timeoutOf(flags)
  const key = flags.text('key')
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  const path = `${runPath(flags.names[0])}/start${query}`
  const begun: unknown = await server.call('POST', path, startBody(flags), headers)
  if (isOutcome(begun)) return tellOutcome(begun, flags, terminal)
  const { journeyId } = begun as { journeyId: string }
  if (flags.has('wait')) return waitFor(server, journeyId, untilMs, flags, terminal)
  if ('currentState' in (begun as object)) return tellStatus(begun as StatusView, flags, terminal)
  terminal.write(flags.has('json') ? JSON.stringify(begun, null, 2) : journeyId)
  return EXIT.fine
}

export async function status({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  return tellStatus((await server.call('GET', runPath(flags.names[0]))) as StatusView, flags, terminal)
}

export async function result({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const untilMs = timeoutOf(flags)
  return waitFor(server, flags.names[0] ?? '', flags.has('wait') ? untilMs : 0, flags, terminal)
}

export async function submit({ flags, terminal }: Call): Promise<number> {
  const [id, step = ''] = flags.names
  const input = inputOf(flags)
  if (input === undefined) throw new SettingsError('--input is missing. See curfew journey submit --help.')
  const server = new Remote(flags, terminal)
  const after: unknown = await server.call('POST', `${runPath(id)}/steps/${encodeURIComponent(step)}`, input)
  return tellStatus(after as StatusView, flags, terminal)
}

export async function cancel({ flags, terminal }: Call): Promise<number> {
  if (!(await confirmed(flags, terminal, `Cancel run ${flags.names[0] ?? ''}`))) return EXIT.refused
  const server = new Remote(flags, terminal)
  const after = (await server.call('POST', `${runPath(flags.names[0])}/steps/cancel`)) as StatusView
  tellStatus(after, flags, terminal)
  return EXIT.fine
}

export async function list({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
  const most = wholeOf(flags, 'limit', 50)
  const query = new URLSearchParams()
  for (const [name, flagName] of [
    ['journeyName', 'name'],
    ['phase', 'phase'],
    ['tag', 'tag'],
  ] as const) {
    const value = flags.text(flagName)
    if (value !== undefined) query.set(name, value)
  }
  const runs: StatusView[] = []
  for (let token: string | null | undefined = ''; token !== undefined && token !== null && runs.length < most;) {
    if (token !== '') query.set('pageToken', token)
    const page = (await server.call('GET', `${RUNS}?${query.toString()}`)) as {
      items: StatusView[]
      nextPageToken?: string | null
    }
    runs.push(...page.items)
    token = page.nextPageToken
  }
  const shown = runs.slice(0, most)
  terminal.write(flags.has('json') ? JSON.stringify(shown, null, 2) : listText(shown, terminal, momentsOf(flags)))
  return EXIT.fine
}

const FIRST_POLL_MS = 200
const MAX_POLL_MS = 5_000
const MAX_ASK_SEC = 30

/** Until the run is over, or so long at most; 0: looks once. Null: as long as it takes. */
async function waitFor(
  server: Remote,
  id: string,
  longestMs: number | null,
  flags: Flags,
  terminal: Terminal,
): Promise<number> {
  const beganMs = performance.now()
  const leftMs = (): number => (longestMs === null ? Infinity : longestMs - (performance.now() - beganMs))
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(MAX_POLL_MS, pollMs * 1.5)) {
    const askedMs = performance.now()
    const seconds = Math.min(MAX_ASK_SEC, Math.ceil(leftMs() / 1000))
    const hold = seconds > 0 ? `?wait=true&timeout=${String(seconds)}` : ''
    const answer: Answer = await server.ask('GET', `${runPath(id)}/result${hold}`)
    if (answer.status === 200) return tellOutcome(answer.body as OutcomeView, flags, terminal)
    if (answer.status !== 409 && answer.status !== 408) throw refusal(answer)
    if (leftMs() <= 0) {
      tellStatus((await server.call('GET', runPath(id))) as StatusView, flags, terminal)
      return EXIT.running
    }
    // An answer that came at once was not held back: ask more gently.
    if (performance.now() - askedMs < FIRST_POLL_MS) await pause(Math.min(pollMs, Math.max(1, leftMs())))
  }
}

const momentsOf = (flags: Flags): Moments => momentsIn(flags.has('utc'))

function isOutcome(body: unknown): body is OutcomeView {
  return typeof body === 'object' && body !== null && 'terminationKind' in body
}

function tellOutcome(outcome: OutcomeView, flags: Flags, terminal: Terminal): number {
  terminal.write(
    flags.has('json') ? JSON.stringify(outcome, null, 2) : outcomeText(outcome, terminal, momentsOf(flags)),
  )
  if (outcome.phase === 'SUCCEEDED') return EXIT.fine
  return outcome.terminationKind === 'Timeout' ? EXIT.timedOut : EXIT.failed
}

function tellStatus(view: StatusView, flags: Flags, terminal: Terminal): number {
  terminal.write(flags.has('json') ? JSON.stringify(view, null, 2) : statusText(view, terminal, momentsOf(flags)))
  return EXIT.fine
}

/** `--id`: the id that the run is to have, beside the input. */
function startBody(flags: Flags): unknown {
  const input = inputOf(flags) ?? {}
  const id = flags.text('id')
  if (id === undefined) return input
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new SettingsError('--id needs an --input that is an object.')
  return { ...input, x_journey_id: id }
}

/** `--input '{"a": 1}'`, `--input @file.json`, `--input @-` for the standard input. */
function inputOf(flags: Flags): unknown {
  const given = flags.text('input')
  if (given === undefined) return undefined
  const file = given.startsWith('@') ? given.slice(1) : null
  const json = file === null ? given : readFileSync(file === '-' ? 0 : file, 'utf8')
  try {
    return JSON.parse(json) as unknown
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new SettingsError(`--input is not valid JSON: ${why}`)
  }
}
