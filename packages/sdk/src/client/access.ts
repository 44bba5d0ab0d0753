/** For administrators: tokens by name, who changed what, and notes such as deploys. */
import { toMillis, type Duration } from '../durations.ts'
import { get, part, type Caller, type Signalled } from './operators.ts'
import type { AnnotationView, AuditEntryView, IssuedTokenView, TokenRole, TokenView } from '../wire/access.ts'

const TOKENS = '/api/v1/tokens'

export class Tokens {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  /** By name, revoked ones included, each with when it was last used. */
  async list(options: Signalled = {}): Promise<readonly TokenView[]> {
    return (await get<{ items: readonly TokenView[] }>(this.#caller, TOKENS, options)).items
  }

  /** Makes a token. Its text is in this answer and nowhere else. */
  create(name: string, roles: readonly TokenRole[], { signal }: Signalled = {}): Promise<IssuedTokenView> {
    // Not repeated: if the answer is lost, the token is there and its text is not.
    return this.#caller.call({ method: 'POST', path: TOKENS, body: { name, roles }, idempotent: false, signal })
  }

  /** A new secret under the same name; the one before stays valid for the overlap, 24 hours unless it is given. */
  rotate(name: string, options: Signalled & { readonly overlap?: Duration } = {}): Promise<IssuedTokenView> {
    const { overlap, signal } = options
    const body = overlap === undefined ? {} : { overlap_ms: toMillis(overlap, 'overlap') }
    return this.#caller.call({ method: 'POST', path: `${pathOf(name)}/rotate`, body, idempotent: false, signal })
  }

  /** Its secrets, sessions and open streams end. */
  revoke(name: string, { signal }: Signalled = {}): Promise<TokenView> {
    return this.#caller.call({ method: 'DELETE', path: pathOf(name), idempotent: false, signal })
  }
}

const pathOf = (name: string): string => `${TOKENS}/${part(name)}`

/** What operators and administrators changed, newest first, fetched by and by; kept for 90 days. */
export function auditLog(caller: Caller, options: Signalled): AsyncGenerator<AuditEntryView, void, undefined> {
  return everyItem(caller, '/api/v1/audit', options)
}

const NOTES = '/api/v1/annotations'

export class Annotations {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  /** By the time of what happened, newest first, fetched by and by; kept for 90 days. */
  list(options: Signalled = {}): AsyncGenerator<AnnotationView, void, undefined> {
    return everyItem(this.#caller, NOTES, options)
  }

  /** Notes that something happened; now, unless `at` is given. */
  add(text: string, { at, signal }: Signalled & { readonly at?: Date } = {}): Promise<AnnotationView> {
    const body = { text, at: at?.toISOString() }
    return this.#caller.call({ method: 'POST', path: NOTES, body, idempotent: false, signal })
  }
}

const PAGE = 200

async function* everyItem<T>(caller: Caller, path: string, options: Signalled): AsyncGenerator<T, void, undefined> {
  type Page = { readonly items: readonly T[]; readonly next_cursor: string | null }
  for (let cursor: string | undefined; ;) {
    const page = await get<Page>(caller, path, options, { limit: PAGE, cursor })
    yield* page.items
    cursor = page.next_cursor ?? undefined
    if (cursor === undefined) return
  }
}
