/** A server full of jobs in every state and of everything else there is, and what it answers to callers. */
import { expect } from 'vitest'
import { until, type ServerProcess } from './server-process.ts'

/** Whatever JSON may hold and a server may spoil. */
export const RAW_ARGS =
  '[9007199254740993, 1.0, "half \\ud800", "nul \\u0000", "line \u2028", {"__proto__":1,"a":1,"a":2}]'

/** All questions whose answers must stay the same. */
export interface Answers {
  readonly [path: string]: unknown
}

/** One job in every state, and everything else there is. */
export class House {
  readonly server: ServerProcess
  readonly jobs: Record<string, string> = {}
  purged = ''
  cursor = ''

  constructor(server: ServerProcess) {
    this.server = server
  }

  async furnish(): Promise<void> {
    const { server, jobs } = this
    await server.call('PUT', '/api/v1/job-types/typed.job', { timeout: 77, caps: { total_timeout: 7_777 } })
    await server.register('mover')
    this.purged = await this.#add({ queue: 'short', result_ttl: 1 })
    await this.#claim('short')
    await server.post('/ojs/v1/workers/ack', { job_id: this.purged })

    const raw = await server.post('/ojs/v1/jobs', `{"type":"typed.job","queue":"waiting","args":${RAW_ARGS}}`)
    jobs['available'] = raw.body.job.id as string
    jobs['scheduled'] = await this.#add({ scheduled_at: '2199-01-01T00:00:00+02:00' })
    jobs['pending'] = await this.#add({ pending: true })
    jobs['active'] = await this.#add({ timeout: 600, heartbeat_timeout: 300 })
    await this.#claim('default')
    await server.call('PUT', `/ojs/v1/jobs/${jobs['active']}/checkpoint`, `{"state":{"frame":1.0}}`)
    await server.post(`/ojs/v1/jobs/${jobs['active']}/progress`, { worker_id: 'mover', progress: 0.5, message: 'half' })
    jobs['completed'] = await this.#add({ queue: 'done' })
    await this.#claim('done')
    await server.post('/ojs/v1/workers/ack', `{"job_id":"${jobs['completed']}","result":{"big":12345678901234567890}}`)
    const never = { max_attempts: 1, on_exhaustion: 'dead_letter' }
    for (const [state, retry] of [
      ['retryable', { initial_interval: 'PT1H', jitter: false }],
      ['discarded', never],
    ] as const) {
      jobs[state] = await this.#add({ queue: state, retry })
      await this.#claim(state)
      await server.post('/ojs/v1/workers/nack', { job_id: jobs[state], error: { type: 'boom', message: 'no \ud800' } })
    }
    jobs['cancelled'] = await this.#add({ queue: 'cancelled' })
    await this.#claim('cancelled')
    await server.call('DELETE', `/ojs/v1/jobs/${jobs['cancelled']}`)
    await server.post('/ojs/v1/queues/paused/pause')
    jobs['behind'] = await this.#add({ queue: 'waiting', priority: 0 })
    await until(
      'the job is purged',
      async () => (await server.get(`/ojs/v1/jobs/${this.purged}/result`)).status === 410,
    )
    const { events } = (await server.get('/ojs/v1/events?limit=3')).body as { events: { id: string }[] }
    this.cursor = events.at(-1)?.id ?? ''
  }

  async #add(job: Record<string, unknown>): Promise<string> {
    return (await this.server.enqueue(job)).id as string
  }

  async #claim(queue: string): Promise<void> {
    expect(await this.server.fetch({ queues: [queue], worker_id: 'mover' })).toHaveLength(1)
  }

  async answers(from: ServerProcess): Promise<Answers> {
    const paths = [
      '/ojs/v1/jobs?limit=100',
      '/ojs/v1/queues',
      ...['default', 'waiting', 'paused', 'short'].map((queue) => `/ojs/v1/admin/queues/${queue}`),
      '/ojs/v1/dead-letter',
      '/ojs/v1/dead-letter/stats',
      '/ojs/v1/workers/mover',
      '/api/v1/job-types',
      `/ojs/v1/events?limit=1000`,
      `/ojs/v1/events?limit=1000&after=${this.cursor}`,
      `/ojs/v1/jobs/${this.purged}/result`,
      `/ojs/v1/jobs/${this.jobs['active'] ?? ''}/checkpoint`,
      `/ojs/v1/jobs/${this.jobs['active'] ?? ''}/progress`,
      `/ojs/v1/jobs/${this.jobs['completed'] ?? ''}/result`,
      ...Object.values(this.jobs).flatMap((id) => [`/ojs/v1/jobs/${id}`, `/ojs/v1/jobs/${id}/explain`]),
    ]
    const answers: Record<string, unknown> = {}
    for (const path of paths) {
      const { status, text } = await from.get(path)
      // What differs: the call's own id, the moment of asking, and the clocks that are credited with the outage.
      const same = text
        .replaceAll(/"(request_id|computed_at|visibility_deadline)":"[^"]*"/g, '"$1":…')
        .replaceAll(/("next":\{"kind":"heartbeat","at":)"[^"]*"/g, '$1…')
        .replaceAll(/(next automatic transition at )\S+?Z/g, '$1…')
        .replaceAll(/"next_steps":\[[^\]]*\]/g, (steps) => steps.replaceAll(/"(at|latest_at)":"[^"]*"/g, '"$1":…'))
        .replaceAll(/"until":"[^"]*","renewable":true(,"credited_ms":\d+)?/g, '"until":…,"renewable":true')
      answers[path] = [status, same]
    }
    return answers
  }
}
