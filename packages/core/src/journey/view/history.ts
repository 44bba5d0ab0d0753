/**
 * The history of a run for people who operate it: with what it began, and state by state what was written and what the
 * context was afterwards. What looks like a secret is masked here, in the one place through which all of it goes.
 */
import { iso } from '../../time/clock.ts'
import { isKeyProblem } from '../api-key.ts'
import type { Data, Run, Visit } from '../run/run.ts'
import { isData, memberOf } from '../run/values.ts'
import { readWritten } from '../run/written.ts'

export interface HistoryStep {
  readonly state: string
  readonly type: string
  /** Which of the states that the run entered this is, from 1. */
  readonly visit: number
  readonly from: string
  readonly to?: string
  readonly note?: string
  /** Members of the context that it wrote. */
  readonly wrote?: Data
  readonly removed?: readonly string[]
  /** The context when it was left; absent where what is kept does not show it. */
  readonly context?: Data
  /** Not all that it wrote is kept. */
  readonly isCut?: true
}

export interface RunHistory {
  readonly journeyId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly phase: Run['phase']
  /** Absent where the run was begun by a server that did not keep it. */
  readonly input?: Data
  /** As it is now; of the branches of a parallel state only what was joined. */
  readonly context: Data
  readonly steps: readonly HistoryStep[]
  /** How many states were entered before the first of `steps`, and are not kept. */
  readonly omitted: number
}

export function historyOf(run: Run): RunHistory {
  const input = inputOf(run)
  const after = contextsAfter(run, run.omitted === 0 ? input : undefined)
  return {
    journeyId: run.id,
    journeyName: run.name,
    journeyVersion: run.version,
    phase: run.phase,
    ...(input === undefined ? {} : { input: masked(input) }),
    context: masked(run.root.context),
    steps: run.trail.map((visit) => stepOf(visit, after.get(visit.visit))),
    omitted: run.omitted,
  }
}

export function inputOf({ input }: Run): Data | undefined {
  return input === undefined ? undefined : readWritten(input).set
}

function stepOf(visit: Visit, context: Data | undefined): HistoryStep {
  const { path, type, from, to, note } = visit
  const written = visit.wrote === undefined ? null : readWritten(visit.wrote)
  return {
    state: path,
    type,
    visit: visit.visit,
    from: iso(from),
    ...(to === null ? {} : { to: iso(to) }),
    ...(note === null ? {} : { note }),
    ...wroteOf(visit),
    ...(written?.removed === undefined ? {} : { removed: written.removed }),
    ...(context === undefined ? {} : { context: masked(context) }),
    ...(written?.isCut === true ? { isCut: true } : {}),
  }
}

/** What a state wrote, masked. */
export function wroteOf({ wrote }: Visit): { readonly wrote?: Data } {
  return wrote === undefined ? {} : { wrote: masked(readWritten(wrote).set) }
}

/**
 * The context after each visit, put together again from what was written. Visits are numbered as they are entered, and in
 * one frame one is left before the next is entered. A branch begins with the context around its parallel state; what is
 * inside a subjourney begins with data that is not kept.
 */
function contextsAfter({ trail }: Run, input: Data | undefined): ReadonlyMap<number, Data | undefined> {
  const types = new Map(trail.map(({ path, type }) => [path, type]))
  const contexts = new Map<string, Data | undefined>([['', input]])
  const last = new Map<string, Visit>()
  const found = new Map<number, Data | undefined>()
  const leave = (frame: string): void => {
    const visit = last.get(frame)
    if (visit === undefined) return
    const after = written(contexts.get(frame), visit.wrote)
    contexts.set(frame, after)
    if (visit.to !== null) found.set(visit.visit, after)
  }
  for (const visit of [...trail].sort((a, b) => a.visit - b.visit)) {
    const frame = parentOf(visit.path)
    if (!contexts.has(frame)) {
      const state = parentOf(frame)
      contexts.set(frame, types.get(state) === 'parallel' ? contexts.get(parentOf(state)) : undefined)
    }
    leave(frame)
    last.set(frame, visit)
  }
  for (const frame of last.keys()) leave(frame)
  return found
}

function written(before: Data | undefined, wrote: string | undefined): Data | undefined {
  if (before === undefined || wrote === undefined) return before
  const { set, removed = [], isCut } = readWritten(wrote)
  return isCut === true ? undefined : { ...without(before, removed), ...set }
}

const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))

const without = (data: Data, names: readonly string[]): Data =>
  names.length === 0 ? data : Object.fromEntries(Object.entries(data).filter(([name]) => !names.includes(name)))

// ---- Secrets ----

export const MASK = '[masked]'

const SECRET_PARTS =
  'pass(?:word|wd|phrase|code)|secret|token|api[-_]?key|authori[sz]ation|credential|private[-_]?key|cookie|session[-_]?id|jwt|signature|bearer'
const SECRET_NAME = new RegExp(`${SECRET_PARTS}|^(?:cvv|cvc|otp|pin)$`, 'i')
/** A text that is nothing but a credential. */
const SECRET_VALUE = /^(bearer|basic)\s+\S/i

/**
 * Credentials inside a text. What one expression looks through from one beginning holds no other beginning, so each takes
 * time in proportion to the text. `needs`: a text without it is not searched.
 */
const SECRETS_IN_TEXT: readonly { readonly needs?: string; readonly found: RegExp; readonly shown: string }[] = [
  { found: /\b(bearer\s{1,8})[^\s"'<>,;]+/gi, shown: `$1${MASK}` },
  // With a capital, a digit or a sign in it: "basic needs" are two words.
  { found: /\b([Bb](?:asic|ASIC)\s{1,8})[a-z]*[A-Z0-9+/=][\w+/=-]*/g, shown: `$1${MASK}` },
  // A JSON Web Token: signed in three parts, encrypted in five.
  { needs: 'eyJ', found: /(?<![\w-])eyJ[\w-]*(?:\.[\w-]*){2,4}/g, shown: MASK },
  // Parameters of a URL or of a form, by their name.
  {
    needs: '=',
    found: new RegExp(
      `((?:^|[\\s?&#;"'])(?=[^\\s?&#;"'=]*(?:${SECRET_PARTS})|(?:cvv|cvc|otp|pin|sig)=)[^\\s?&#;"'=]+=)[^\\s&#"'<>]+`,
      'gi',
    ),
    shown: `$1${MASK}`,
  },
  // User and password of a URL.
  { needs: '://', found: /(:\/\/)[^\s/?#"<>]+@/g, shown: `$1${MASK}@` },
]

/** A copy without what looks like a secret: by the name of a member, or by the form of a text. */
export function masked(data: Data): Data {
  return mask(data) as Data
}

export function maskedText(text: string): string {
  if (SECRET_VALUE.test(text)) return MASK
  let shown = text
  for (const { needs, found, shown: instead } of SECRETS_IN_TEXT)
    if (needs === undefined || shown.includes(needs)) shown = shown.replace(found, instead)
  return shown
}

function mask(value: unknown): unknown {
  if (typeof value === 'string') return maskedText(value)
  if (Array.isArray(value)) return value.map(mask)
  if (!isData(value)) return value
  return Object.fromEntries(Object.keys(value).map((name) => [name, maskedMember(name, memberOf(value, name))]))
}

const maskedMember = (name: string, value: unknown): unknown =>
  SECRET_NAME.test(name) && !isKeyVerdict(name, value) ? MASK : mask(value)

/** What `apiKeyValidate` writes: the id of a key or a problem, never a key. */
function isKeyVerdict(name: string, value: unknown): boolean {
  if (name !== 'apiKey' || !isData(value) || Object.keys(value).length !== 1) return false
  const problem = memberOf(value, 'problem')
  return typeof memberOf(value, 'keyId') === 'string' || (isData(problem) && isKeyProblem(problem))
}
