/** What expressions see of a run, and where their values go. */
import { iso } from '../../time/clock.ts'
import { RunFault } from '../faults.ts'
import type { Target } from '../definition.ts'
import type { Data, Frame, Run } from './run.ts'

/** A run's attributes are for finding it, not for keeping things in. */
const MAX_ATTRIBUTES = 16
const MAX_KEY_LENGTH = 32
const MAX_VALUE_LENGTH = 256

export const isData = (value: unknown): value is Data =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function memberOf(data: Data, name: string): unknown {
  return Object.hasOwn(data, name) ? data[name] : undefined
}

/** The document an expression is evaluated against. */
export function documentFor(run: Run, { context }: Pick<Frame, 'context'>, config: Data, more: Data = {}): Data {
  const { compensates } = run
  return {
    context,
    payload: memberOf(context, 'payload') ?? null,
    error: null,
    platform: {
      journey: { id: run.id, name: run.name, version: run.version, kind: run.kind },
      startedAt: iso(run.startedAt),
      deadlineAt: iso(run.deadlineAt),
      config,
    },
    ...(compensates === null ? {} : { output: compensates.end.output, outcome: outcomeOf(run, compensates) }),
    ...more,
  }
}

function outcomeOf({ name }: Run, { id, end }: NonNullable<Run['compensates']>): Data {
  const { phase, terminationKind, error, terminatedAtState } = end
  return { phase, terminationKind, error, terminatedAtState, journeyId: id, journeyName: name }
}

export interface Written {
  readonly context: Data
  readonly attributes: Run['attributes']
}

/** Puts a value where it belongs. */
export function write(target: Target, value: unknown, { context, attributes }: Written): Written {
  switch (target.kind) {
    case 'var':
      return { context: { ...context, [target.name]: value }, attributes }
    case 'context':
      return { context: written(context, target.path, value), attributes }
    case 'attributes':
      return { context, attributes: withAttributes(attributes, value) }
  }
}

function written(context: Data, path: readonly string[], value: unknown): Data {
  const [first, ...rest] = path
  if (first === undefined) {
    if (isData(value)) return value
    throw new RunFault('RUNTIME_TYPE_MISMATCH', 'what takes the place of the whole context must be an object')
  }
  if (rest.length === 0) return { ...context, [first]: value }
  const inner = memberOf(context, first)
  return { ...context, [first]: written(isData(inner) ? inner : {}, rest, value) }
}

/** Attributes are written once. */
export function withAttributes(attributes: Run['attributes'], value: unknown): Run['attributes'] {
  if (!isData(value)) throw new RunFault('RUNTIME_ATTRIBUTE', 'attributes are given as an object')
  const result: Record<string, string> = { ...attributes }
  for (const [key, given] of Object.entries(value)) {
    if (Object.hasOwn(result, key))
      throw new RunFault('RUNTIME_ATTRIBUTE', `the attribute ${shown(key)} is set already, and attributes are set once`)
    const text = typeof given === 'string' ? given : (JSON.stringify(given) ?? '')
    if (key.length === 0 || key.length > MAX_KEY_LENGTH)
      throw new RunFault('RUNTIME_ATTRIBUTE', `the name of an attribute has 1 to ${String(MAX_KEY_LENGTH)} characters`)
    if (text.length > MAX_VALUE_LENGTH)
      throw new RunFault('RUNTIME_ATTRIBUTE', `the attribute ${shown(key)} is longer than ${String(MAX_VALUE_LENGTH)}`)
    Object.defineProperty(result, key, { value: text, enumerable: true, configurable: true, writable: true })
  }
  if (Object.keys(result).length > MAX_ATTRIBUTES)
    throw new RunFault('RUNTIME_ATTRIBUTE', `a run has at most ${String(MAX_ATTRIBUTES)} attributes`)
  return result
}

const shown = (name: string): string => JSON.stringify(name.slice(0, MAX_KEY_LENGTH))
