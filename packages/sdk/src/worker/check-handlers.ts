/** Finds handlers that cannot run when the worker starts, and not when the first job arrives. */
import { CurfewError } from '../errors.ts'
import type { Registered } from './handlers.ts'
import type { IsolateKind } from '../isolate/isolate.ts'
import { loadHandler } from '../isolate/load-handler.ts'
import type { ErrorData } from '../attempt/facts.ts'

/** Handlers of several types that are the same export of a module, in the same kind of place. */
interface Shared {
  readonly handler: Registered
  readonly types: string[]
}

/**
 * Loads the module of every handler where it will run: an inline one here, the others through `check`. Rejects with an
 * error that names the types, the modules and what to do.
 */
export async function checkHandlers(
  handlers: Iterable<Registered>,
  check: (kind: IsolateKind) => Promise<ErrorData | null>,
): Promise<void> {
  const shared = sharedModules(handlers)
  const answers = await Promise.all(shared.map(({ handler }) => checkOne(handler, check)))
  const failures = shared.flatMap((each, index) => {
    const error = answers[index] ?? null
    return error === null ? [] : [{ ...each, error }]
  })
  const [first] = failures
  if (first === undefined) return
  throw new CurfewError(
    first.error.code ?? 'module_failed',
    failures.map(({ types, error }) => `The handler of ${types.join(', ')} cannot run: ${worded(error)}`).join('\n'),
    {
      details: {
        handlers: failures.map(({ handler: { module, exportName }, types, error }) => ({
          types,
          module,
          export: exportName,
          code: error.code,
        })),
      },
    },
  )
}

function sharedModules(handlers: Iterable<Registered>): Shared[] {
  const shared = new Map<string, Shared>()
  for (const handler of handlers) {
    const { job, isolation, module, exportName, memoryMb } = handler
    if (module === null) continue
    const key = JSON.stringify([isolation, module, exportName, memoryMb])
    const known = shared.get(key)
    if (known === undefined) shared.set(key, { handler, types: [job.type] })
    else known.types.push(job.type)
  }
  return [...shared.values()]
}

async function checkOne(
  { isolation, module, exportName, memoryMb }: Registered,
  check: (kind: IsolateKind) => Promise<ErrorData | null>,
): Promise<ErrorData | null> {
  if (module === null) return null
  if (isolation !== 'inline') return check({ isolation, module, exportName, memoryMb })
  const loaded = await loadHandler(module, exportName)
  return loaded.ok ? null : loaded.error
}

/** With the lines of the module where it failed; the message itself is said already. */
function worded({ message, stack = '' }: ErrorData): string {
  const frames = stack.split('\n').filter((line) => /^\s*at /.test(line))
  return [message, ...frames.map((frame) => `    ${frame.trim()}`)].join('\n')
}
