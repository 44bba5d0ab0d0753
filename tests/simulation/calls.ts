/** What the outside can ask of a server, as data: the network carries it, the model understands it. */

export type Fields = Readonly<Record<string, unknown>>

/** An enqueue request as it goes over the wire; `args[0]` tells requests apart. */
export interface JobBody extends Fields {
  readonly type: string
  readonly queue: string
  readonly args: readonly [string]
  readonly id?: string
}

/** What a report says of the attempt it speaks for. */
export interface FenceFields {
  readonly worker_id?: string
  readonly attempt?: number
  readonly x_lease?: number
}

export interface ErrorFields extends Fields {
  readonly type?: string
  readonly code?: string
  readonly message: string
  readonly retryable?: boolean
}

export interface BeatBody {
  readonly worker_id: string
  readonly state: 'running' | 'quiet' | 'terminate'
  readonly active_job_ids: readonly string[]
  readonly x_leases?: Readonly<Record<string, number>>
  readonly x_beats?: readonly string[]
  readonly seq?: number
  readonly visibility_timeout_ms?: number
}

export interface FetchBody {
  readonly queues: readonly string[]
  readonly count: number
  readonly worker_id?: string
  readonly visibility_timeout_ms?: number
  readonly wait_ms?: number
}

export interface RegisterBody {
  readonly worker_id: string
  readonly hostname: string
  readonly pid: number
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly handlers?: Readonly<Record<string, Fields>>
}

export type Call =
  | { readonly verb: 'enqueue'; readonly body: JobBody }
  | { readonly verb: 'batch'; readonly jobs: readonly JobBody[] }
  | { readonly verb: 'register'; readonly body: RegisterBody }
  | { readonly verb: 'deregister'; readonly workerId: string }
  | { readonly verb: 'beat'; readonly body: BeatBody }
  | { readonly verb: 'fetch'; readonly body: FetchBody }
  | { readonly verb: 'ack'; readonly body: FenceFields & { readonly job_id: string; readonly result: unknown } }
  | {
      readonly verb: 'nack'
      readonly body: FenceFields & {
        readonly job_id: string
        readonly error?: ErrorFields
        readonly requeue?: boolean
      }
    }
  | { readonly verb: 'progress'; readonly jobId: string; readonly body: FenceFields & { readonly progress: number } }
  | { readonly verb: 'checkpoint'; readonly jobId: string; readonly body: FenceFields & { readonly state: unknown } }
  | { readonly verb: 'cancel' | 'activate' | 'look'; readonly jobId: string }
  | { readonly verb: 'patch'; readonly jobId: string; readonly body: Fields }
  | { readonly verb: 'retry'; readonly jobId: string; readonly fromDeadLetters: boolean }
  | { readonly verb: 'pause' | 'resume'; readonly queue: string }
  | { readonly verb: 'configure'; readonly queue: string; readonly body: Fields }
  | { readonly verb: 'direct'; readonly workerId: string; readonly word: 'quiet' | 'terminate' | 'resume' }
  | { readonly verb: 'policy'; readonly type: string; readonly body: Fields | null }
  | { readonly verb: 'list'; readonly queue: string }
  | { readonly verb: 'queues' }

export type Verb = Call['verb']

/** Calls that only look; they are met alone, so that what they show is the state after everything before them. */
export function isLook(call: Call): boolean {
  return call.verb === 'look' || call.verb === 'list' || call.verb === 'queues'
}

export interface Message {
  readonly method: string
  readonly url: string
  readonly body?: unknown
}

const BASE = '/ojs/v1'

export function messageOf(call: Call): Message {
  switch (call.verb) {
    case 'enqueue':
      return post(`${BASE}/jobs`, call.body)
    case 'batch':
      return post(`${BASE}/jobs/batch`, { jobs: call.jobs })
    case 'register':
      return post(`${BASE}/workers/register`, call.body)
    case 'deregister':
      return post(`${BASE}/workers/deregister`, { worker_id: call.workerId })
    case 'beat':
      return post(`${BASE}/workers/heartbeat`, { ...call.body, active_jobs: call.body.active_job_ids.length })
    case 'fetch':
    case 'ack':
    case 'nack':
      return post(`${BASE}/workers/${call.verb}`, call.body)
    case 'progress':
    case 'checkpoint':
      return { method: 'PUT', url: `${BASE}/jobs/${call.jobId}/${call.verb}`, body: call.body }
    case 'cancel':
      return { method: 'DELETE', url: `${BASE}/jobs/${call.jobId}` }
    case 'activate':
      return post(`${BASE}/jobs/${call.jobId}/activate`)
    case 'look':
      return { method: 'GET', url: `${BASE}/jobs/${call.jobId}` }
    case 'patch':
      return { method: 'PATCH', url: `${BASE}/jobs/${call.jobId}`, body: call.body }
    case 'retry':
      return post(`${BASE}/${call.fromDeadLetters ? 'dead-letter' : 'admin/jobs'}/${call.jobId}/retry`)
    case 'pause':
    case 'resume':
      return post(`${BASE}/queues/${call.queue}/${call.verb}`)
    case 'configure':
      return { method: 'PUT', url: `${BASE}/admin/queues/${call.queue}/config`, body: call.body }
    case 'direct':
      return post(`${BASE}/admin/workers/${call.workerId}/${call.word}`)
    case 'policy':
      return call.body === null
        ? { method: 'DELETE', url: `/api/v1/job-types/${call.type}` }
        : { method: 'PUT', url: `/api/v1/job-types/${call.type}`, body: call.body }
    case 'list':
      return { method: 'GET', url: `${BASE}/jobs?queue=${call.queue}&limit=200` }
    case 'queues':
      return { method: 'GET', url: `${BASE}/queues` }
  }
}

function post(url: string, body?: unknown): Message {
  return body === undefined ? { method: 'POST', url } : { method: 'POST', url, body }
}
