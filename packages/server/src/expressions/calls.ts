/**
 * How a function of an expression is called: what it is given is weighed and checked, what it gives back is weighed. Each
 * of the built-in functions goes through here, those of JSONata and those we wrote anew, because a function can be
 * reached without any node of the expression in between: `$map($list, $string)`.
 */
import { evaluationOf, type Evaluation } from './evaluation.ts'
import type { Meter } from './meter.ts'
import { NATIVES, type Definition, type Frame } from './natives.ts'

export interface Call {
  readonly evaluation: Evaluation
  readonly meter: Meter
  /** JSONata's own function, with what it expects as `this`. */
  native(...args: readonly unknown[]): unknown
  /** Calls a function that was passed as an argument. */
  invoke(passed: Passed, ...args: readonly unknown[]): unknown
  sequence(): unknown[]
}

/** A function as an argument: a native one, or one of JSONata's, which have an `apply` too. */
export interface Passed {
  apply(focus: unknown, args: readonly unknown[]): unknown
}

/** A function written anew, or a check before JSONata's own. */
export type Body = (call: Call, ...args: never[]) => unknown

/** What JSONata gives a function as `this`; without options where it was applied in part. */
interface Focus {
  readonly environment: Frame
  readonly options?: unknown
}

/**
 * The definition JSONata is given for one of its names. Partial application reads the names of parameters out of the text
 * of a function, and others count them: both must look like the original.
 */
export function guarded(name: string, body: Body | undefined): Definition {
  const original = NATIVES.get(name)
  if (original === undefined) throw new Error(`JSONata has no function ${name}`)
  const { implementation: native, signature } = original

  function implementation(this: unknown, ...given: unknown[]): unknown {
    const { environment, options } = this as Focus
    const { base } = environment
    const evaluation = evaluationOf(base)
    const { meter } = evaluation
    meter.work(20)
    // Applied in part, a function is called without a look at its arguments.
    const args = options === undefined ? signature.validate(withoutTail(given), undefined) : given
    for (const arg of args) meter.work(meter.weigh(arg) >> 3)
    const focus = { environment: base, input: undefined, options: base.options, createSequence: base.createSequence }
    const call: Call = {
      evaluation,
      meter,
      native: (...ours) => native.apply(focus, [...ours]),
      invoke: (passed, ...ours) => passed.apply(focus, ours),
      sequence: () => base.createSequence(),
    }
    const result = body === undefined ? call.native(...args) : body(call, ...(args as never[]))
    return result instanceof Promise ? result.then((value) => weighed(meter, value)) : weighed(meter, result)
  }
  Object.defineProperty(implementation, 'length', { value: native.length })
  Object.defineProperty(implementation, 'toString', { value: () => native.toString() })
  return locked(implementation, original)
}

function weighed(meter: Meter, value: unknown): unknown {
  const weight = meter.weigh(value)
  if (typeof value === 'string') meter.allocate(weight)
  return value
}

function withoutTail(args: readonly unknown[]): unknown[] {
  let length = args.length
  while (length > 0 && args[length - 1] === undefined) length -= 1
  return args.slice(0, length)
}

/** Nothing but what JSONata writes with every call can be changed, whatever an expression finds to do it with. */
function locked(implementation: Definition['implementation'], original: Definition): Definition {
  const definition = { token: undefined, position: undefined }
  Object.defineProperties(definition, {
    _jsonata_function: { value: true, enumerable: true },
    implementation: { value: Object.freeze(implementation), enumerable: true },
    signature: { value: Object.freeze(original.signature), enumerable: true },
  })
  return Object.preventExtensions(definition) as unknown as Definition
}
