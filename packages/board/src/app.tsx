/** The frame around every page: where one can go, and how fresh is what one sees. */
import { useSignalEffect } from '@preact/signals'
import { Component, type ComponentChildren, type ComponentType, type JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { get, heardAt, mustSignIn } from './api.ts'
import { Now } from './pages/now.tsx'
import { partsOf, path } from './router.ts'
import { learnServerTime, length, monotonicMs, now } from './time.ts'
import { Link, notice } from './ui.tsx'
import type { Health } from './wire.ts'

type PageOf = ComponentType<{ readonly at: readonly string[] }>
type Load = () => Promise<PageOf>

/** Pages besides the first are loaded when they are opened. */
const PAGES: readonly (readonly [string, Load])[] = [
  ['/jobs', () => import('./pages/jobs.tsx').then((page) => page.Jobs)],
  ['/jobs/:', () => import('./pages/job.tsx').then((page) => page.JobPage)],
  ['/timeouts', () => import('./pages/timeouts.tsx').then((page) => page.Timeouts)],
  ['/queues', () => import('./pages/queues.tsx').then((page) => page.Queues)],
  ['/queues/:', () => import('./pages/queues.tsx').then((page) => page.QueuePage)],
  ['/workers', () => import('./pages/workers.tsx').then((page) => page.Workers)],
  ['/workers/:', () => import('./pages/workers.tsx').then((page) => page.WorkerPage)],
  ['/dead-letters', () => import('./pages/dead-letters.tsx').then((page) => page.DeadLetters)],
  ['/workflows', () => import('./pages/workflows.tsx').then((page) => page.Workflows)],
  ['/workflows/:', () => import('./pages/workflows.tsx').then((page) => page.WorkflowPage)],
  ['/runs', () => import('./pages/runs.tsx').then((page) => page.Runs)],
  ['/runs/:', () => import('./pages/runs.tsx').then((page) => page.RunPage)],
  ['/cron', () => import('./pages/cron.tsx').then((page) => page.CronPage)],
  ['/types', () => import('./pages/types.tsx').then((page) => page.Types)],
  ['/types/:', () => import('./pages/types.tsx').then((page) => page.TypePage)],
  ['/incident', () => import('./pages/incident.tsx').then((page) => page.Incident)],
  ['/settings', () => import('./pages/settings.tsx').then((page) => page.Settings)],
  ['/sign-in', () => import('./pages/sign-in.tsx').then((page) => page.SignIn)],
]

const MENU: readonly (readonly [string, string])[] = [
  ['/', 'Now'],
  ['/jobs', 'Jobs'],
  ['/timeouts', 'Timeouts'],
  ['/queues', 'Queues'],
  ['/workers', 'Workers'],
  ['/dead-letters', 'Dead letters'],
  ['/workflows', 'Workflows'],
  ['/runs', 'Journeys'],
  ['/cron', 'Cron'],
  ['/types', 'Types'],
  ['/incident', 'Incident'],
  ['/settings', 'Settings'],
]

/** Silence longer than this greys what is shown: it may have changed. */
const SILENT_MS = 3_000
const CLOCK_EVERY_MS = 30_000

export function App(): JSX.Element {
  useServerClock()
  const at = path.value
  if (at === '/sign-in' || mustSignIn.value) return <Opened load={pageAt('/sign-in')} at={[]} />
  const isSilent = silence() > SILENT_MS
  return (
    <div class="frame">
      <header class="side">
        <Link to="/" class="brand">
          Curfew
        </Link>
        <nav aria-label="Pages">
          <ul>
            {MENU.map(([to, name]) => (
              <li key={to}>
                <Link to={to} aria-current={isUnder(at, to) ? 'page' : undefined}>
                  {name}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <Pulse isSilent={isSilent} />
      </header>
      <main class={isSilent ? 'page stale' : 'page'}>
        <Whole key={at}>{pageFor(at)}</Whole>
      </main>
      <Toast />
    </div>
  )
}

/** A page that cannot be shown says so, and the others still work. */
class Whole extends Component<{ readonly children: ComponentChildren }, { readonly isBroken: boolean }> {
  override state = { isBroken: false }

  override componentDidCatch(error: unknown): void {
    console.error(error)
    this.setState({ isBroken: true })
  }

  override render(): ComponentChildren {
    if (!this.state.isBroken) return this.props.children
    return (
      <>
        <h1 tabIndex={-1}>This page cannot be shown</h1>
        <p>The server answered something that the board does not understand. Reload the page to try again.</p>
      </>
    )
  }
}

function pageFor(at: string): JSX.Element {
  if (at === '/') return <Now />
  for (const [pattern, load] of PAGES) {
    const parts = partsOf(pattern, at)
    if (parts !== null) return <Opened key={at} load={load} at={parts} />
  }
  return <h1 tabIndex={-1}>There is no such page</h1>
}

const pageAt = (pattern: string): Load => {
  const found = PAGES.find(([own]) => own === pattern)
  if (found === undefined) throw new Error(`no page ${pattern}`)
  return found[1]
}

const isUnder = (at: string, to: string): boolean => at === to || (to !== '/' && at.startsWith(`${to}/`))

const silence = (): number => {
  // Looked at with every tick.
  void now.value
  return heardAt.value === null ? 0 : monotonicMs() - heardAt.value
}

function Pulse({ isSilent }: { isSilent: boolean }): JSX.Element {
  const ms = silence()
  return (
    <p class={isSilent ? 'pulse silent' : 'pulse'} role={isSilent ? 'status' : undefined}>
      {heardAt.value === null
        ? 'Connecting…'
        : isSilent
          ? `Last heard ${length(ms)} ago. What you see may be old.`
          : `Live, heard ${(ms / 1_000).toFixed(1)} s ago`}
    </p>
  )
}

function Opened({ load, at }: { load: Load; at: readonly string[] }): JSX.Element {
  const [Shown, setShown] = useState<{ readonly page: PageOf } | null>(null)
  const [isLost, setLost] = useState(false)
  useEffect(() => {
    let isOver = false
    load().then(
      (page) => {
        if (!isOver) setShown({ page })
      },
      () => {
        setLost(true)
      },
    )
    return () => {
      isOver = true
    }
  }, [load])
  if (isLost) return <p class="trouble">This page could not be loaded. The server may have been updated: reload it.</p>
  return Shown === null ? <p class="soft">Loading…</p> : <Shown.page at={at} />
}

/** Tells what came of an action, to eyes and to screen readers. */
function Toast(): JSX.Element {
  useSignalEffect(() => {
    const told = notice.value
    if (told === null || told.isBad) return
    const timer = setTimeout(() => {
      notice.value = null
    }, 6_000)
    return () => {
      clearTimeout(timer)
    }
  })
  const told = notice.value
  return (
    <div role="status">
      {told === null ? null : (
        <div class="toast">
          <span>{told.text}</span>
          <button
            type="button"
            onClick={() => {
              notice.value = null
            }}
          >
            Dismiss
          </button>
        </div>
      )}
    </div>
  )
}

function useServerClock(): void {
  useEffect(() => {
    const look = (): void => {
      const before = monotonicMs()
      get<Health>('/ojs/v1/health').then(
        ({ server_time: time }) => {
          const tookMs = monotonicMs() - before
          learnServerTime(Date.parse(time), tookMs)
        },
        () => {},
      )
    }
    look()
    const timer = setInterval(look, CLOCK_EVERY_MS)
    return () => {
      clearInterval(timer)
    }
  }, [])
}
