/** Schemas that the arguments of a type of job are held to. A version never changes once it is registered. */
import type { AnyJob } from '../job/define-job.ts'
import { everyPage, get, part, type Caller, type Signalled } from './operators.ts'
import type { SchemaVersionView, SchemaView } from '../wire/schemas.ts'

const PATH = '/ojs/v1/admin/schemas'

export class Schemas {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  list(options: Signalled = {}): Promise<SchemaView[]> {
    return everyPage<SchemaView>(this.#caller, '/ojs/v1/schemas', 'schemas', options)
  }

  /** The newest, or the one of a version. */
  get(type: string | AnyJob, options: Signalled & { readonly version?: string } = {}): Promise<SchemaView> {
    return get<SchemaView>(this.#caller, pathOf(type, options.version), options)
  }

  /** Newest first, without the schemas themselves. */
  async versions(type: string | AnyJob, options: Signalled = {}): Promise<readonly SchemaVersionView[]> {
    const path = `${pathOf(type)}/versions`
    return (await get<{ versions: SchemaVersionView[] }>(this.#caller, path, options)).versions
  }

  /** `schema` is a JSON Schema of the list of arguments. A version that is there is refused: `conflict`. */
  register(
    type: string | AnyJob,
    version: string,
    schema: Readonly<Record<string, unknown>> | boolean,
    { signal }: Signalled = {},
  ): Promise<SchemaView> {
    const call = { method: 'PUT', path: pathOf(type, version), body: { schema }, idempotent: false, signal } as const
    return this.#caller.call<SchemaView>(call)
  }

  async delete(type: string | AnyJob, version: string, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: pathOf(type, version), idempotent: false, signal })
  }
}

function pathOf(type: string | AnyJob, version?: string): string {
  const path = `${PATH}/${part(typeof type === 'string' ? type : type.type)}`
  return version === undefined ? path : `${path}/${part(version)}`
}
