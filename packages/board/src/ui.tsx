/** Small parts that every page uses. */
import { signal } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, may } from './api.ts'
import { href, path, search } from './router.ts'
import { clockTime, instantAt, length, now, relative } from './time.ts'
import type { Pagination } from './wire.ts'

export function Link({
  to,
  children,
  ...rest
}: {
  to: string
  children: ComponentChildren
  class?: string
  title?: string
  'aria-current'?: 'page' | undefined
}): JSX.Element {
  return (
    <a {...rest} href={href(to)} data-board>
      {children}
    </a>
  )
}

export const jobPath = (id: string): string => `/jobs/${encodeURIComponent(id)}`

/** The last twelve signs tell ids of one moment apart; the whole id is in the title. */
export function JobLink({ id }: { id: string }): JSX.Element {
  return (
    <Link to={jobPath(id)} class="id" title={id}>
      {shortId(id)}
    </Link>
  )
}

export const shortId = (id: string): string => (id.length > 16 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id)

/** Shape before colour. */
const SIGNS: Readonly<Record<string, string>> = {
  available: '○',
  active: '▶',
  scheduled: '◷',
  pending: '‖',
  retryable: '↻',
  completed: '✓',
  discarded: '✕',
  cancelled: '⊘',
}

export function StateBadge({ state }: { state: string }): JSX.Element {
  return (
    <span class={`state s-${state}`}>
      <span aria-hidden="true">{SIGNS[state] ?? '•'}</span> {state}
    </span>
  )
}

/** Who set a limit. */
const SOURCES: Readonly<Record<string, readonly [string, string]>> = {
  publish: ['●', 'set at enqueue'],
  handler: ['◆', 'set by the handler'],
  type: ['▲', 'set for the type'],
  queue: ['■', 'set for the queue'],
  cap: ['⊤', 'cut by a cap'],
  default: ['○', 'default of the server'],
  parent: ['↑', 'from the parent job'],
  workflow: ['⇑', 'from the workflow'],
  retry: ['↻', 'from the retry policy'],
}

/** A limit of a type or a queue is changed on its page. */
export function Source({ source, type, queue }: { source: string; type?: string; queue?: string }): JSX.Element {
  const [sign, words] = SOURCES[source] ?? ['•', source]
  const chip = (
    <>
      <span aria-hidden="true">{sign}</span> {words}
    </>
  )
  const to =
    source === 'type' && type !== undefined
      ? `/types/${encodeURIComponent(type)}`
      : source === 'queue' && queue !== undefined
        ? `/queues/${encodeURIComponent(queue)}`
        : source === 'default' || source === 'cap'
          ? '/settings'
          : null
  return to === null ? (
    <span class="chip">{chip}</span>
  ) : (
    <Link class="chip" to={to}>
      {chip}
    </Link>
  )
}

export const sourceSign = (source: string): string => SOURCES[source]?.[0] ?? '•'

export function Time({ at }: { at: string | null | undefined }): JSX.Element | null {
  if (at === null || at === undefined) return null
  return (
    <time dateTime={at} title={at}>
      {clockTime(at)}
    </time>
  )
}

export function Ago({ at }: { at: string }): JSX.Element {
  return (
    <time dateTime={at} title={at}>
      {relative(instantAt(at), now.value)}
    </time>
  )
}

export function Page({
  title,
  children,
  aside,
}: {
  title: ComponentChildren
  children: ComponentChildren
  aside?: ComponentChildren
}): JSX.Element {
  return (
    <>
      <header class="head">
        <h1 tabIndex={-1}>{title}</h1>
        {aside}
      </header>
      {children}
    </>
  )
}

export function Trouble({ error }: { error: ApiError | null }): JSX.Element | null {
  if (error === null) return null
  return (
    <p class="trouble" role="alert">
      <strong>{error.message}</strong>
      {error.hint === null ? null : <> {error.hint}</>}
    </p>
  )
}

export function Loading({ error }: { error?: ApiError | null }): JSX.Element {
  return error === null || error === undefined ? <p class="soft">Loading…</p> : <Trouble error={error} />
}

export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren] | null)[] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map((fact) =>
        fact === null ? null : (
          <div key={fact[0]}>
            <dt>{fact[0]}</dt>
            <dd>{fact[1]}</dd>
          </div>
        ),
      )}
    </dl>
  )
}

export function Table({
  head,
  children,
  label,
}: {
  head: readonly string[]
  children: ComponentChildren
  label: string
}): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((name) => (
              <th scope="col" key={name} class={name.startsWith('#') ? 'num' : undefined}>
                {name.replace(/^#/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** Where in a list the address says to begin. */
export function offsetInAddress(): number {
  const given = Number(search.value.get('from'))
  return Number.isSafeInteger(given) && given > 0 ? given : 0
}

/** Leads on and back in a list that is longer than a page. */
export function Paging({ pagination, what }: { pagination: Pagination; what: string }): JSX.Element | null {
  const { limit, offset = 0, total, has_more: hasMore } = pagination
  if (offset === 0 && !hasMore) return null
  const at = (from: number): string => {
    const query = new URLSearchParams(search.value)
    if (from <= 0) query.delete('from')
    else query.set('from', String(from))
    return path.value + (query.size === 0 ? '' : `?${query.toString()}`)
  }
  const last = hasMore || total === undefined ? offset + limit : total
  return (
    <nav class="buttons" aria-label={`More ${what}`}>
      <span class="soft">
        {count(offset + 1)} to {count(last)}
        {total === undefined ? '' : ` of ${count(total)}`} {what}
      </span>
      {offset > 0 ? <Link to={at(offset - limit)}>Before</Link> : null}
      {hasMore ? <Link to={at(offset + limit)}>Next</Link> : null}
    </nav>
  )
}

export function Json({ value, name, open = false }: { value: unknown; name: string; open?: boolean }): JSX.Element {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2)
  const isLong = text.length > MAX_SHOWN
  return (
    <details open={open}>
      <summary>{name}</summary>
      <pre tabIndex={0}>
        {isLong ? `${text.slice(0, MAX_SHOWN)}\n… ${String(text.length - MAX_SHOWN)} more characters` : text}
      </pre>
    </details>
  )
}
const MAX_SHOWN = 20_000

export function Copy({ text }: { text: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false)
  return (
    <div class="copy">
      <pre tabIndex={0}>{text}</pre>
      <button
        type="button"
        onClick={() => {
          void navigator.clipboard.writeText(text).then(() => {
            setCopied(true)
          })
        }}
      >
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  )
}

// ---- Actions ----

/** What the role does not allow is not shown. */
export function Needs({
  role,
  children,
}: {
  role: 'produce' | 'operate' | 'admin'
  children: ComponentChildren
}): JSX.Element | null {
  return may(role) ? <>{children}</> : null
}

export const notice = signal<{ readonly text: string; readonly isBad: boolean } | null>(null)

export function say(text: string, isBad = false): void {
  notice.value = { text, isBad }
}

/** Does it, and says what came of it. */
export async function act(what: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action()
    say(what)
    return true
  } catch (error) {
    say(refusalInWords(error), true)
    return false
  }
}

function refusalInWords(error: unknown): string {
  if (error instanceof ApiError) return `${error.message} ${error.hint ?? ''}`
  if (error instanceof SyntaxError) return `This is not valid JSON, and nothing was sent: ${error.message}`
  return 'The server does not answer.'
}

/** A question before something is done; `children` show what it will hit. */
export function Dialog({
  title,
  children,
  confirm,
  isDanger = false,
  onConfirm,
  onClose,
}: {
  title: string
  children: ComponentChildren
  confirm: string | null
  isDanger?: boolean
  onConfirm: () => Promise<unknown> | void
  onClose: () => void
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null)
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    element.current?.showModal()
  }, [])
  return (
    <dialog ref={element} onClose={onClose} aria-labelledby="dialog-title">
      <h2 id="dialog-title">{title}</h2>
      {children}
      <div class="buttons">
        <button type="button" onClick={() => element.current?.close()}>
          {confirm === null ? 'Close' : 'Leave it'}
        </button>
        {confirm === null ? null : (
          <button
            type="button"
            class={isDanger ? 'danger' : 'main'}
            disabled={isBusy}
            onClick={() => {
              setBusy(true)
              void Promise.resolve(onConfirm()).then(() => element.current?.close())
            }}
          >
            {confirm}
          </button>
        )}
      </div>
    </dialog>
  )
}

// ---- Drawings ----

/** How much of a budget is spent; beyond the limit, the rest is grace. */
export function Bar({
  share,
  grace = 0,
  tone,
  words,
}: {
  share: number
  grace?: number
  tone: string
  words: string
}): JSX.Element {
  const width = 96
  const solid = Math.max(0, Math.min(1, share)) * width
  return (
    <span class="bar">
      <svg viewBox={`0 0 ${String(width)} 10`} width={width} height={10} aria-hidden="true">
        <rect class="track" width={width} height={10} rx={2} />
        <rect class={`fill ${tone}`} width={solid} height={10} rx={2} />
        {grace > 0 ? (
          <rect class="hatched" x={solid} width={Math.min(width - solid, grace * width)} height={10} />
        ) : null}
        <line class="limit" x1={width - 0.5} x2={width - 0.5} y1={0} y2={10} />
      </svg>{' '}
      {words}
    </span>
  )
}

/** Small columns, the newest to the right. */
export function Columns({
  values,
  label,
  tone = 'plain',
}: {
  values: readonly number[]
  label: string
  tone?: string
}): JSX.Element {
  const most = Math.max(1, ...values)
  const step = 10
  return (
    <svg
      class="columns"
      viewBox={`0 0 ${String(values.length * step)} 32`}
      role="img"
      aria-label={label}
      preserveAspectRatio="none"
    >
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(3, (value / most) * 32)
        return (
          <rect
            key={index}
            class={value === 0 ? 'none' : tone}
            x={index * step}
            y={32 - height}
            width={step - 2}
            height={height}
          />
        )
      })}
    </svg>
  )
}

export const perSecond = (value: number): string =>
  value >= 10 ? String(Math.round(value)) : String(Math.round(value * 10) / 10)

export const count = (value: number): string => value.toLocaleString('en')

export { length }
