/** A reader of Server-Sent Events, as plain as the wire: frames as they come, comments counted, the end noticed. */
import { request as httpRequest, type ClientRequest } from 'node:http'
import { until, type ServerProcess } from './server-process.ts'

export interface Frame {
  readonly id: string | null
  readonly event: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly data: any
  /** When it was read, on this process's wall clock. */
  readonly readAt: number
}

export class EventSource {
  readonly frames: Frame[] = []
  readonly comments: string[] = []
  /** Resolves when the stream has ended, however that came about. */
  readonly ended: Promise<void>
  readonly #request: ClientRequest
  #rest = ''

  private constructor(request: ClientRequest, ended: Promise<void>) {
    this.#request = request
    this.ended = ended
  }

  /** Answers when the server has begun the stream: what happens from then on is read. */
  static open(server: ServerProcess, path: string, lastEventId?: string): Promise<EventSource> {
    return new Promise((resolve, reject) => {
      const headers = {
        Accept: 'text/event-stream',
        ...(lastEventId === undefined ? {} : { 'Last-Event-ID': lastEventId }),
      }
      let end = (): void => {}
      const ended = new Promise<void>((done) => (end = done))
      const request = httpRequest({ host: '127.0.0.1', port: server.port, path, headers, agent: false }, (response) => {
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          source.#read(chunk)
          // The first thing sent is `retry:`; until then the stream does not listen.
          resolve(source)
        })
        response.on('close', end)
        response.on('error', end)
        if (response.statusCode !== 200) reject(new Error(`the stream answered ${String(response.statusCode)}`))
      })
      const source = new EventSource(request, ended)
      request.on('error', (error) => {
        end()
        reject(error)
      })
      request.end()
    })
  }

  /** The first frame of this kind, waited for. */
  frame(event: string, jobId?: string): Promise<Frame> {
    return until(`a frame ${event}`, () =>
      this.frames.find((frame) => frame.event === event && (jobId === undefined || frame.data.job_id === jobId)),
    )
  }

  /** Frames that tell of stored events; `job.state_changed` only accompanies them. */
  get stored(): Frame[] {
    return this.frames.filter(({ event }) => event !== 'job.state_changed' && event !== 'system.gap')
  }

  close(): void {
    this.#request.destroy()
  }

  #read(chunk: string): void {
    const blocks = (this.#rest + chunk).split('\n\n')
    this.#rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map<string, string>()
      for (const line of block.split('\n')) {
        if (line.startsWith(':')) this.comments.push(line.slice(1))
        else fields.set(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim())
      }
      const event = fields.get('event')
      if (event === undefined) continue
      const data = JSON.parse(fields.get('data') ?? 'null') as unknown
      this.frames.push({ id: fields.get('id') ?? null, event, data, readAt: Date.now() })
    }
  }
}
