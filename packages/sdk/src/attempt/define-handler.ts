/**
 * A handler that knows its job: what it gets is checked against the job's input, what it returns against its output,
 * wherever it runs. It is how a module of its own (for a thread or a process) says which job it is for:
 *
 *   export const transcode = defineHandler(transcodeJob, async (ctx, [id, size]) => { … })
 */
import type { Context } from './context.ts'
import { checkOutput, readInput, type AnyJob, type GotBy, type Job } from '../job/define-job.ts'
import { InputError } from '../errors.ts'

/** Known by every copy of the SDK that an application may hold. */
const MARK = Symbol.for('curfew.handler')

export type HandlerFunction<Input = readonly unknown[], Returned = unknown> = (
  ctx: Context,
  input: Input,
) => Returned | Promise<Returned>

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyHandlerFunction = HandlerFunction<any>

type ReturnedBy<J> = J extends Job<infer _S, infer _G, infer Returned, infer _O> ? Returned : never

export interface Handler<J extends AnyJob = AnyJob> {
  readonly job: J
  readonly run: HandlerFunction<GotBy<J>, ReturnedBy<J>>
}

export function defineHandler<J extends AnyJob>(job: J, run: HandlerFunction<GotBy<J>, ReturnedBy<J>>): Handler<J> {
  return Object.defineProperty({ job, run }, MARK, { value: true })
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === 'object' && value !== null && MARK in value
}

/** The arguments do not fit the job: no retry would mend that. */
class UnfitInput extends InputError {
  readonly retryable = false

  constructor(cause: InputError) {
    super(cause.message, cause.details)
    this.name = 'InputError'
  }
}

/** The input as it was sent, and as the handler gets it. What does not fit fails, and would fail again. */
export async function inputFor(job: AnyJob, args: readonly unknown[]): Promise<{ sent: unknown; value: unknown }> {
  try {
    return await readInput(job, args)
  } catch (error) {
    throw error instanceof InputError ? new UnfitInput(error) : error
  }
}

/** Runs either form of handler: a plain function gets the input as it was sent. */
export async function runHandler(
  handler: Handler | AnyHandlerFunction,
  ctx: Context,
  sent: unknown = ctx.args,
): Promise<unknown> {
  if (!isHandler(handler)) return handler(ctx, sent)
  const { job, run } = handler
  const { value } = await inputFor(job, ctx.args)
  return checkOutput(job, await run(ctx, value))
}
