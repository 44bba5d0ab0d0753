/** What the page Now shows on a server without jobs and workers: how to send the first job, and what limits do. */
import type { JSX } from 'preact'
import { ask, may } from '../api.ts'
import { act, Copy, Needs, Page, Table } from '../ui.tsx'
import { href } from '../router.ts'
import type { Job } from '../wire.ts'

const FIRST_JOB = { type: 'email.send', args: ['ada@example.com'], options: { timeout_ms: 30_000 } }

const DEMO_QUEUE = 'demo'

/** What is sent, and what becomes of it. */
const DEMO: readonly {
  readonly type: string
  readonly shows: string
  readonly isServed: boolean
  readonly options: Readonly<Record<string, unknown>>
}[] = [
  {
    type: 'demo.too-old',
    shows: 'It may wait 3 s for its start (enqueue_ttl); then it is discarded',
    isServed: false,
    options: { enqueue_ttl_ms: 3_000 },
  },
  {
    type: 'demo.total',
    shows: 'Its whole life may take 4 s (total_timeout), waiting included',
    isServed: false,
    options: { total_timeout_ms: 4_000 },
  },
  {
    type: 'demo.later',
    shows: 'It is scheduled: it may start in 2 s, and must have by 5 s',
    isServed: false,
    options: { delay_until: '+PT2S', expires_at: '+PT5S' },
  },
  {
    type: 'demo.cancelled',
    shows: 'It is cancelled right after it is enqueued',
    isServed: false,
    options: {},
  },
  {
    type: 'demo.work',
    shows: 'It waits until a worker serves the queue; an attempt may take 30 s',
    isServed: true,
    options: { timeout_ms: 30_000 },
  },
  {
    type: 'demo.retried',
    shows: 'Three attempts of 2 s each, with a grace of 1 s',
    isServed: true,
    options: { timeout_ms: 2_000, grace_period_ms: 1_000, retry: { max_attempts: 3 } },
  },
]

async function sendDemo(): Promise<void> {
  for (const { type, options } of DEMO) {
    const { job } = await ask<{ job: Job }>('POST', '/ojs/v1/jobs', {
      type,
      args: [],
      options: { queue: DEMO_QUEUE, ...options },
    })
    if (type === 'demo.cancelled' && may('operate')) await ask('DELETE', `/ojs/v1/jobs/${job.id}`)
  }
}

/** The first page of a server on which nothing has happened yet. */
export function Greeting(): JSX.Element {
  const base = window.location.origin + href('/')
  return (
    <Page title="This server is up, and empty">
      <p>Enqueue a job from a terminal:</p>
      <Copy
        text={`curl -sS ${base}ojs/v1/jobs -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(FIRST_JOB)}'`}
      />
      <Needs role="produce">
        <button
          type="button"
          class="main"
          onClick={() => void act('Sent. It waits for a worker.', () => ask('POST', '/ojs/v1/jobs', FIRST_JOB))}
        >
          Send this job now
        </button>
        <h2>Or see what limits do</h2>
        <p>Six small jobs on the queue {DEMO_QUEUE}, each of which ends in a different way:</p>
        <Table label="Demo jobs" head={['Job', 'What it shows', 'Needs a worker']}>
          {DEMO.map(({ type, shows, isServed }) => (
            <tr key={type}>
              <th scope="row">{type}</th>
              <td class="wrap">{shows}</td>
              <td>{isServed ? 'yes' : 'no'}</td>
            </tr>
          ))}
        </Table>
        <p>
          <button
            type="button"
            onClick={() => void act('Sent. Those without a worker end within five seconds.', sendDemo)}
          >
            Send the demo jobs
          </button>
        </p>
      </Needs>
      <p>
        A worker takes it with the SDK, or with three calls: fetch, heartbeat, ack. Every call is described in{' '}
        <a href={href('/openapi.json')}>openapi.json</a>; how limits work is in <code>docs/timeouts.md</code>, the SDK
        in <code>docs/sdk-worker.md</code>.
      </p>
    </Page>
  )
}
