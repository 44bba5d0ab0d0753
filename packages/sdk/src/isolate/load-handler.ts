/**
 * Finds a handler: the module by its URL, the export by its name. Runs inside isolates.
 *
 * TypeScript needs no build step: where Node strips types itself, it is asked first. Where it does not (Node 20), or
 * where it is stricter than the compiler (enums, `./y.js` that means `./y.ts`, types imported without `type`), jiti
 * compiles the module, without writing anything to the disk. JSX is compiled by jiti, too: Node does not know it.
 */
import { isHandler, type Handler, type HandlerFunction } from '../attempt/define-handler.ts'
import { errorData } from '../attempt/error-data.ts'
import type { ErrorData } from '../attempt/facts.ts'

export type Loaded =
  { readonly ok: true; readonly handler: Handler | HandlerFunction } | { readonly ok: false; readonly error: ErrorData }

export async function loadHandler(module: string, exportName: string): Promise<Loaded> {
  let exports: Record<string, unknown>
  try {
    exports = await importModule(module)
  } catch (error) {
    return { ok: false, error: unloadable(module, error) }
  }
  const found = exports[exportName]
  if (typeof found === 'function' || isHandler(found)) return { ok: true, handler: found as Handler | HandlerFunction }
  return { ok: false, error: noHandler(module, exportName, found, Object.keys(exports)) }
}

async function importModule(module: string): Promise<Record<string, unknown>> {
  const { pathname } = new URL(module)
  if (/\.[jt]sx$/.test(pathname)) return importByJiti(module)
  if (!/\.[cm]?ts$/.test(pathname)) return importNatively(module)
  // Not in the types of Node 20.
  const { typescript } = process.features as { readonly typescript?: string | false }
  if (typescript === undefined || typescript === false) return importByJiti(module)
  try {
    return await importNatively(module)
  } catch (error) {
    if (!mayJitiDoBetter(error)) throw error
    // If it cannot either, Node's own words are the better ones.
    return importByJiti(module).catch(() => {
      throw error
    })
  }
}

async function importNatively(module: string): Promise<Record<string, unknown>> {
  return (await import(module)) as Record<string, unknown>
}

async function importByJiti(module: string): Promise<Record<string, unknown>> {
  const { createJiti } = await import('jiti')
  // No cache on the disk: it would lie where others may write.
  const jiti = createJiti(module, {
    fsCache: false,
    interopDefault: false,
    tryNative: false,
    jsx: true,
    extensions: ['.js', '.mjs', '.cjs', '.jsx', '.ts', '.mts', '.cts', '.tsx'],
  })
  return jiti.import<Record<string, unknown>>(module)
}

/** Errors of finding and linking, which come before anything has run: so nothing runs twice. */
function mayJitiDoBetter(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return error instanceof SyntaxError || code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'
}

function unloadable(module: string, error: unknown): ErrorData {
  const { name, message, code, stack } = errorData(error)
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND' || code === 'ENOENT'
  return {
    name: 'IsolateError',
    code: isMissing ? 'module_not_found' : 'module_failed',
    message: isMissing
      ? `The module of the handler, ${module}, or one it imports is not there: ${message}. Give it as ` +
        `new URL('./handler.ts', import.meta.url), and deploy it with the worker.`
      : `The module of the handler, ${module}, could not be loaded: ${name}: ${message}. Correct the module.`,
    ...(stack === undefined ? {} : { stack }),
  }
}

function noHandler(module: string, exportName: string, found: unknown, names: readonly string[]): ErrorData {
  const exported = names.length === 0 ? 'It exports nothing.' : `It exports ${names.join(', ')}.`
  return {
    name: 'IsolateError',
    code: 'export_not_found',
    message:
      found === undefined
        ? `${module} has no export "${exportName}". ${exported} Give the name of the handler's export as exportName.`
        : `The export "${exportName}" of ${module} is not a handler: export a function, or what defineHandler gives.`,
  }
}
