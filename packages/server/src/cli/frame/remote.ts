/** A server somewhere, as commands speak to it: one call, one answer; or a stream of events. */
import { parseDuration } from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import { clean } from './clean.ts'
import type { Flags, Terminal } from './flags.ts'

export interface Answer {
  readonly status: number
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any
}

export interface ServerEvent {
  readonly event: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly data: any
}

/** Null: a comment that keeps the connection open. */
function eventOf(block: string): ServerEvent | null {
  const field = (name: string): string | undefined =>
    block
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2)
  const data = field('data')
  return data === undefined ? null : { event: field('event') ?? 'message', data: jsonOr(data, {}) }
}

function jsonOr(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return otherwise
  }
}

/** The server said no, or nothing; the text is for people. */
export class Refused extends Error {}

const DEFAULT_URL = 'http://127.0.0.1:8080'

export class Remote {
  readonly url: string
  readonly #token: string | undefined

  /** `--url` and `--token`, or CURFEW_URL and CURFEW_TOKEN. */
  constructor(flags: Flags, { env }: Terminal) {
    // A variable that is set to nothing is as good as none.
    const named = flags.text('url') ?? (env['CURFEW_URL'] || undefined)
    this.url = (named ?? DEFAULT_URL).replace(/\/+$/, '')
    this.#token = flags.text('token') ?? (env['CURFEW_TOKEN'] || undefined)
    const source = flags.text('url') === undefined ? 'CURFEW_URL' : '--url'
    if (!/^https?:\/\/\S+$/.test(this.url))
      throw new SettingsError(`${source} must be an address such as ${DEFAULT_URL}, not ${JSON.stringify(this.url)}.`)
  }

  /** Refusals are answers too. */
  async ask(method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<Answer> {
    const headers: Record<string, string> = { accept: 'application/json', ...more }
    if (body !== undefined) headers['content-type'] = 'application/json'
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await this.#fetch(path, { method, headers, ...sent })
    const text = await answer.text()
    try {
      return { status: answer.status, body: text === '' ? null : (JSON.parse(text) as unknown) }
    } catch {
      throw new Refused(
        `${this.url} answered ${String(answer.status)} with a body that is not JSON. Is this a Curfew server?`,
      )
    }
  }

  /** Frames of Server-Sent Events, until the stream ends or `signal` is aborted. */
  async *stream(path: string, signal?: AbortSignal): AsyncGenerator<ServerEvent> {
    const headers: Record<string, string> = { accept: 'text/event-stream' }
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`
    const answer = await this.#fetch(path, { method: 'GET', headers, ...(signal === undefined ? {} : { signal }) })
    if (answer.status !== 200) throw refusal({ status: answer.status, body: jsonOr(await answer.text(), null) })
    const decoder = new TextDecoder()
    let held = ''
    for await (const chunk of answer.body ?? []) {
      const blocks = (held + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n')
      held = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = eventOf(block)
        if (event !== null) yield event
      }
    }
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(`${this.url}${path}`, init)
    } catch (error) {
      if (init.signal?.aborted === true) throw error
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
      throw new Refused(`No server answers at ${this.url} (${cause}). Start it, or name another with --url.`)
    }
  }

  /** The body of an answer that should be fine. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  async call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<any> {
    const answer = await this.ask(method, path, body, headers)
    if (answer.status < 200 || answer.status > 299) throw refusal(answer)
    return answer.body
  }
}

/** What a problem says, and all that is wrong with what was sent. */
export function refusal({ status, body }: Answer): Refused {
  const problem = (body ?? {}) as {
    detail?: string
    title?: string
    code?: string
    mistakes?: unknown
    errors?: unknown
    /** As OJS has it. */
    error?: { code?: string; message?: string }
  }
  const said = problem.error?.message ?? problem.detail ?? problem.title ?? 'It did not say why.'
  const list = [problem.mistakes, problem.errors].find((one): one is unknown[] => Array.isArray(one)) ?? []
  const told = list.map((one) => `\n  ${mistakeText(one)}`)
  const code = problem.error?.code ?? problem.code ?? `HTTP ${String(status)}`
  const remedy = status === 401 ? ' Give one with --token or CURFEW_TOKEN.' : ''
  return new Refused(clean(`${said} (${code})${remedy}${told.join('')}`))
}

/** Where, and what: `/approved: …`. */
function mistakeText(mistake: unknown): string {
  const { pointer, path = pointer, message } = (mistake ?? {}) as { pointer?: string; path?: string; message?: string }
  return message === undefined
    ? JSON.stringify(mistake)
    : `${path === undefined || path === '' ? '/' : path}: ${message}`
}

/** `--timeout 30s` in milliseconds; null: as long as it takes. */
export function timeoutOf(flags: Flags): number | null {
  const text = flags.text('timeout')
  if (text === undefined) return null
  const ms = parseDuration(text)
  if (ms === null) throw new SettingsError(`--timeout must be a length such as 30s or 5m, not ${JSON.stringify(text)}.`)
  return ms
}
