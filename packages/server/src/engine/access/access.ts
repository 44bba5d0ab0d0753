/**
 * Who may call. All tokens of the store are held in memory, so a request costs one lookup: the header that was sent, in a
 * bounded map of headers that were found good. A header that is not there costs one digest.
 *
 * Every server reads the tokens again when one of them changes: by its own command, or by the news of another server's
 * commit. News that may be missing counts as a change.
 *
 * The token of the command line (`--token`) is not stored. A person may have chosen it, so guesses at it are limited;
 * tokens that the server made cannot be guessed.
 */
import {
  after,
  ALWAYS_IDLE,
  earliest,
  hours,
  isDue,
  isSecretValid,
  MAX_TOKENS,
  readDoc,
  sessionEndsAt,
  TOKEN,
  TOKEN_USE,
  type Instant,
  type Role,
  type Timer,
  type Token,
  type TokenSecret,
  type TokenUse,
} from '@curfew/core'
import type { Context } from '../kernel/context.ts'
import { callerOf, type Caller, type Refused } from './caller.ts'
import { digestsOf, hashOf, isSame, isSessionOf, readSession, secretIdIn, sessionText, type Digests } from './secret.ts'
import { Guesses } from './guesses.ts'

/** What the command line's token is called, where names are shown. No stored token can have this name. */
export const COMMAND_LINE = '--token'
const COMMAND_LINE_ID = 'command-line'

export const MAX_TOKEN_LENGTH = 1_024
const MAX_HEADER_LENGTH = MAX_TOKEN_LENGTH + 100
/** Of headers and sessions that were found good. Beyond that, all are forgotten. */
const MAX_KNOWN = 2_000
/** How often uses are written down, at most. */
const NOTE_USE_EVERY_MS = 30_000
const RETRY_LOAD_MS = 1_000

/** A secret of a token, with what is needed to check it. */
interface Entry extends Digests {
  readonly token: Pick<Token, 'name' | 'roles' | 'revokedAt'>
  readonly secret: Pick<TokenSecret, 'id' | 'endsAt'>
  readonly use: Use
  readonly ended: AbortController | null
}

/** Of a token, on this server. */
interface Use {
  at: Instant | null
  isUnwritten: boolean
}

interface Known {
  readonly caller: Caller
  readonly entry: Entry
  readonly endsAt: Instant | null
}

export interface AccessOptions {
  /** `--token`; null: none. */
  readonly token?: string | null
}

export class Access {
  readonly #context: Context
  readonly #own: Entry | null
  readonly #guesses: Guesses
  #tokens = new Map<string, Token>()
  #entries = new Map<string, Entry>()
  readonly #known = new Map<string, Known>()
  readonly #uses = new Map<string, Use>()
  #noting: Timer | null = null
  #ending: Timer | null = null
  #retrying: Timer | null = null
  #loading: Promise<void> = Promise.resolve()
  #unfollow: () => void = () => {}
  #isClosed = false

  constructor(context: Context, { token = null }: AccessOptions = {}) {
    this.#context = context
    this.#guesses = new Guesses(context.host)
    this.#own =
      token === null
        ? null
        : {
            ...digestsOf(token),
            token: { name: COMMAND_LINE, roles: ['admin'], revokedAt: null },
            secret: { id: COMMAND_LINE_ID, endsAt: null },
            // Not a stored token: its use is not written down.
            use: { at: null, isUnwritten: true },
            ended: null,
          }
  }

  static async open(context: Context, options: AccessOptions): Promise<Access> {
    const access = new Access(context, options)
    access.#unfollow = context.store.follow((news) => {
      if (news === null || news.live.some(({ type }) => type === 'token.changed')) access.#reload()
    })
    try {
      await access.load()
    } catch (error) {
      await access.close()
      throw error
    }
    return access
  }

  /** There is no token: everyone who reaches the server may do everything. */
  get isOpen(): boolean {
    return this.#own === null && this.#tokens.size === 0
  }

  get hasCommandLineToken(): boolean {
    return this.#own !== null
  }

  get tokens(): readonly Token[] {
    return [...this.#tokens.values()]
  }

  /** Whether a token with this role counts, besides one of this name. */
  hasRole(role: Role, besides: string | null = null): boolean {
    return this.tokens.some(
      ({ name, roles, revokedAt }) => name !== besides && revokedAt === null && roles.includes(role),
    )
  }

  /** Who sent this `Authorization` header. */
  byHeader(header: string): Caller | Refused {
    const known = this.#recall(header)
    if (known !== null) return known
    const sent = tokenIn(header)
    if (sent === undefined) return { refused: 'unknown' }
    const entry = this.#entryOf(sent)
    if (!('hash' in entry)) return entry
    return this.#admit(entry, header, 'bearer', entry.secret.endsAt)
  }

  /** Whose session this is. */
  bySession(text: string): Caller | Refused {
    const known = this.#recall(text)
    if (known !== null) return known
    const session = readSession(text)
    const entry = session === null ? null : this.#entryWith(session.secretId)
    if (session === null || entry === null || !isSessionOf(session, entry)) return { refused: 'session' }
    if (isDue(session.endsAt, this.#context.now())) return { refused: 'session' }
    return this.#admit(entry, text, 'session', session.endsAt)
  }

  /** A new session for the sender of this header. */
  beginSession(header: string): { readonly text: string; readonly endsAt: Instant } | null {
    const sent = tokenIn(header)
    const entry = sent === undefined ? null : this.#entryOf(sent)
    if (sent === undefined || entry === null || !('hash' in entry)) return null
    const endsAt = sessionEndsAt(this.#context.now(), entry.secret.endsAt)
    return { text: sessionText(entry.secret.id, sent, entry.hash, endsAt), endsAt }
  }

  /** When a token was last used, as far as this server knows. */
  usedAt(name: string): Instant | null {
    return this.#uses.get(name)?.at ?? null
  }

  /** Reads all tokens. */
  load(): Promise<void> {
    const read = async (): Promise<void> => {
      const docs = await this.#context.look((reads) => reads.docs(TOKEN.kind, '', null, 2 * MAX_TOKENS))
      this.#take(docs.map((doc) => readDoc<Token>(doc)))
    }
    const loading = this.#loading.then(read)
    this.#loading = loading.catch(() => {})
    return loading
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#unfollow()
    for (const timer of [this.#noting, this.#ending, this.#retrying]) timer?.cancel()
    await this.#loading
    await this.#writeUses().catch(() => {})
  }

  #recall(text: string): Caller | null {
    const known = this.#known.get(text)
    if (known === undefined) return null
    if (known.endsAt !== null && isDue(known.endsAt, this.#context.now())) {
      this.#known.delete(text)
      return null
    }
    this.#noteUse(known.entry.use)
    return known.caller
  }

  #admit(entry: Entry, text: string, via: 'bearer' | 'session', endsAt: Instant | null): Caller | Refused {
    const { token, secret, ended } = entry
    if (token.revokedAt !== null) return { refused: 'revoked', name: token.name }
    if (isDue(secret.endsAt, this.#context.now())) return { refused: 'rotated', name: token.name }
    const caller = callerOf(token, via, via === 'session' ? endsAt : null, ended?.signal ?? null)
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(text, { caller, entry, endsAt: earliest(endsAt, secret.endsAt) })
    this.#noteUse(entry.use)
    return caller
  }

  #entryOf(sent: string): Entry | Refused {
    const id = secretIdIn(sent)
    const entry = id === null ? undefined : this.#entries.get(id)
    if (entry !== undefined) return isSame(hashOf(sent), entry.hash) ? entry : { refused: 'unknown' }
    if (this.#own === null) return { refused: 'unknown' }
    if (!this.#guesses.mayLook()) return { refused: 'throttled' }
    if (isSame(hashOf(sent), this.#own.hash)) return this.#own
    this.#guesses.wrong()
    return { refused: 'unknown' }
  }

  #entryWith(secretId: string): Entry | null {
    if (secretId === COMMAND_LINE_ID) return this.#own
    return this.#entries.get(secretId) ?? null
  }

  #take(tokens: readonly Token[]): void {
    const now = this.#context.now()
    const before = this.#entries
    const entries = new Map<string, Entry>()
    for (const token of tokens) {
      for (const secret of token.secrets) {
        const isValid = isSecretValid(token, secret, now)
        const old = before.get(secret.id)
        const isKept = isValid && old !== undefined && old.secret.endsAt === secret.endsAt
        const ended = (isValid ? old?.ended : null) ?? new AbortController()
        entries.set(secret.id, isKept ? old : entryOf(token, secret, this.#useOf(token.name), ended))
      }
    }
    this.#tokens = new Map(tokens.map((token) => [token.name, token]))
    this.#entries = entries
    // The command line's token does not change: its holders must not be throttled while others guess at it.
    for (const [text, { entry }] of this.#known) if (entry !== this.#own) this.#known.delete(text)
    for (const [id, { ended }] of before) if (entries.get(id)?.ended !== ended) ended?.abort()
    this.#awaitEnd(now)
  }

  /** Streams of a secret end with it. */
  #awaitEnd(now: Instant): void {
    this.#ending?.cancel()
    this.#ending = null
    let next: Instant | null = null
    for (const { secret } of this.#entries.values())
      if (!isDue(secret.endsAt, now)) next = earliest(next, secret.endsAt)
    if (next === null || this.#isClosed) return
    this.#ending = this.#context.timerAt(earliest(next, after(now, MAX_TIMER)) ?? next, () => {
      this.#take(this.tokens)
    })
  }

  #reload(): void {
    if (this.#isClosed) return
    this.load().catch((error: unknown) => {
      if (this.#isClosed) return
      this.#context.log.warn(
        { err: error },
        'tokens could not be read again; those read before stay in force meanwhile',
      )
      this.#retrying?.cancel()
      this.#retrying = this.#context.host.setTimer(RETRY_LOAD_MS, () => this.#reload(), ALWAYS_IDLE)
    })
  }

  // ---- Last uses ----

  #useOf(name: string): Use {
    const use = this.#uses.get(name) ?? { at: null, isUnwritten: false }
    this.#uses.set(name, use)
    return use
  }

  #noteUse(use: Use): void {
    use.at = this.#context.now()
    if (use.isUnwritten) return
    use.isUnwritten = true
    if (this.#noting !== null || this.#isClosed) return
    this.#noting = this.#context.host.setTimer(
      NOTE_USE_EVERY_MS,
      () => {
        this.#noting = null
        this.#writeUses().catch(() => {
          // The store cannot serve; the next use tries again.
        })
      },
      ALWAYS_IDLE,
    )
  }

  async #writeUses(): Promise<void> {
    const names: string[] = []
    for (const [name, use] of this.#uses) {
      if (use.isUnwritten && this.#tokens.has(name)) names.push(name)
      use.isUnwritten = false
    }
    if (names.length === 0) return
    await this.#context.run({
      name: 'token use',
      needs: { docs: names.map((id) => ({ kind: TOKEN_USE.kind, id })) },
      run: (unit) => {
        for (const name of names) {
          const usedAt = this.#uses.get(name)?.at ?? null
          const before: TokenUse | null = unit.doc(TOKEN_USE, name)
          if (usedAt !== null && usedAt > (before?.usedAt ?? 0)) unit.putDoc(TOKEN_USE, name, { usedAt })
        }
      },
    })
  }
}

/** Undefined for what is not a bearer token. */
function tokenIn(header: string): string | undefined {
  return header.length > MAX_HEADER_LENGTH ? undefined : /^Bearer +(.+)$/i.exec(header)?.[1]
}

/** Node timers above 2^31-1 ms fire at once. */
const MAX_TIMER = hours(24)

function entryOf(token: Token, secret: TokenSecret, use: Use, ended: AbortController): Entry {
  return {
    token,
    secret,
    use,
    hash: Buffer.from(secret.hash, 'hex'),
    proofHash: Buffer.from(secret.proofHash, 'hex'),
    ended,
  }
}
