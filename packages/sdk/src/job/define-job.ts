/**
 * A kind of job: its type, its input, its output, and the limits every publish of it starts from. Both sides
 * import it, so that what is enqueued is what the handler gets, checked at either end.
 *
 * Jobs travel with a list of arguments. An input that is an array is that list; any other input is its only entry.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { AsJson } from '../as-json.ts'
import { InputError } from '../errors.ts'
import type { Limits } from './limits.ts'
import type { RetryPolicy } from './retry.ts'
import type { UniquePolicy } from './unique.ts'

export type AnySchema = StandardSchemaV1

export interface JobOptions<In extends AnySchema | undefined, Out extends AnySchema | undefined> {
  /** Any Standard Schema: zod, valibot, arktype, … */
  readonly input?: In
  readonly output?: Out
  /** What an enqueue says unless it says otherwise. */
  readonly limits?: Limits
  readonly queue?: string
  readonly priority?: number
  readonly retry?: RetryPolicy
  /** Never two jobs for the same work, unless an enqueue says otherwise. */
  readonly unique?: UniquePolicy | boolean
}

/** `Sent` is what an enqueue takes, `Got` what the handler gets, `Returned` what it returns, `Result` what readers get. */
export interface Job<Sent, Got, Returned, Result> {
  readonly type: string
  readonly options: JobOptions<AnySchema | undefined, AnySchema | undefined>
  /** Types only. */
  readonly types?: { sent: Sent; got: Got; returned: Returned; result: Result }
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyJob = Job<any, any, any, any>
export type SentBy<J> = J extends Job<infer Sent, unknown, unknown, unknown> ? Sent : never
export type GotBy<J> = J extends Job<infer _S, infer Got, infer _R, infer _O> ? Got : never

type Sent<S, Args> = S extends AnySchema ? StandardSchemaV1.InferInput<S> : Args
type Got<S, Args> = S extends AnySchema ? StandardSchemaV1.InferOutput<S> : Args
type Returned<S, Result> = S extends AnySchema ? StandardSchemaV1.InferInput<S> : Result
type Read<S, Result> = S extends AnySchema ? StandardSchemaV1.InferOutput<S> : AsJson<Result>

const TYPE = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/

/**
 * With schemas the types come from them: `defineJob('video.transcode', { input, output })`. Without schemas they can be written:
 * the list of arguments, and what the handler returns: `defineJob<[id: string], { url: string }>('video.transcode')`. Nothing is
 * checked at run time then. An output schema with written arguments needs an input schema instead.
 */
export function defineJob<
  Args extends readonly unknown[] = readonly unknown[],
  Result = unknown,
  In extends AnySchema | undefined = undefined,
  Out extends AnySchema | undefined = undefined,
>(
  type: string,
  options: JobOptions<In, Out> = {},
): Job<Sent<In, Args>, Got<In, Args>, Returned<Out, Result>, Read<Out, Result>> {
  if (!TYPE.test(type) || type.length > 255) {
    throw new InputError(
      `${JSON.stringify(type)} is not a valid job type: write lower-case words joined by dots, as in 'video.transcode'.`,
      { field: 'type' },
    )
  }
  return { type, options }
}

/** The arguments of an input, checked by the schema. What is sent is what was given, not what the schema made of it. */
export async function encodeInput(job: AnyJob, input: unknown): Promise<readonly unknown[]> {
  const { input: schema } = job.options
  if (schema !== undefined) {
    const issues = await issuesOf(schema, input)
    if (issues !== null) throw mismatch(`The input of ${job.type} does not fit its schema`, issues)
    if (Array.isArray(input) && mayBeTheOnlyOne(input) && (await issuesOf(schema, input[0])) === null) {
      throw new InputError(
        `The schema of ${job.type} takes a list and its only entry alike: the handler could not tell which was sent.`,
        { path: '/' },
      )
    }
  }
  return argsOf(input)
}

/** The arguments of an input that nothing has to check. */
export function argsOf(input: unknown): readonly unknown[] {
  if (Array.isArray(input)) return input as unknown[]
  return input === undefined ? [] : [input]
}

/** What the handler gets. Throws an InputError that names the path when the arguments no longer fit. */
export async function decodeInput(job: AnyJob, args: readonly unknown[]): Promise<unknown> {
  return (await readInput(job, args)).value
}

/** The input as it was sent, the whole list or its only entry, and what the schema makes of it. */
export async function readInput(job: AnyJob, args: readonly unknown[]): Promise<{ sent: unknown; value: unknown }> {
  const { input: schema } = job.options
  if (schema === undefined) return { sent: args, value: args }
  // The entry first: to some schemas of objects a list is an object too, with nothing in it that they know.
  const only = mayBeTheOnlyOne(args) ? await schema['~standard'].validate(args[0]) : null
  if (only !== null && only.issues === undefined) return { sent: args[0], value: only.value }
  const whole = await schema['~standard'].validate(args)
  if (whole.issues === undefined) return { sent: args, value: whole.value }
  if (args.length === 0) {
    const nothing = await schema['~standard'].validate(undefined)
    if (nothing.issues === undefined) return { sent: undefined, value: nothing.value }
  }
  // A list of one may be either; an object where an object is expected is the likelier mistake.
  const isObject = typeof args[0] === 'object' && args[0] !== null
  throw mismatch(
    `The input of ${job.type} does not fit its schema`,
    only !== null && isObject ? only.issues : whole.issues,
  )
}

/** An input that is a list is sent as it is: an entry that is a list itself was never the whole input. */
function mayBeTheOnlyOne(args: readonly unknown[]): boolean {
  return args.length === 1 && !Array.isArray(args[0])
}

export async function checkOutput(job: AnyJob, output: unknown): Promise<unknown> {
  const { output: schema } = job.options
  if (schema === undefined) return output
  const issues = await issuesOf(schema, output)
  if (issues !== null) throw mismatch(`The output of ${job.type} does not fit its schema`, issues)
  return output
}

export async function decodeOutput(job: AnyJob, output: unknown): Promise<unknown> {
  const { output: schema } = job.options
  if (schema === undefined) return output
  const read = await schema['~standard'].validate(output)
  if (read.issues === undefined) return read.value
  throw mismatch(`The result of ${job.type} does not fit its schema`, read.issues)
}

async function issuesOf(schema: AnySchema, value: unknown): Promise<readonly StandardSchemaV1.Issue[] | null> {
  const read = await schema['~standard'].validate(value)
  return read.issues ?? null
}

function mismatch(what: string, issues: readonly StandardSchemaV1.Issue[]): InputError {
  const told = issues.map(({ message, path }) => ({ path: pathOf(path), message }))
  const first = told[0]
  return new InputError(`${what}: ${first?.message ?? 'refused'} (at ${first?.path ?? '/'})`, {
    path: first?.path ?? '/',
    issues: told,
  })
}

function pathOf(path: StandardSchemaV1.Issue['path']): string {
  const parts = (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part))
  return `/${parts.join('/')}`
}
