/** `curfew` in this process, against a server on a clock turned by hand: what it prints, and its exit code. */
import { vi } from 'vitest'
import { runCurfew } from '../packages/server/src/cli/run.ts'
import type { TestServer } from './harness.ts'

export interface Printed {
  readonly code: number
  readonly out: string
  /** What was said beside the output. */
  readonly notes: string
}

export interface Said {
  readonly width?: number
  readonly colour?: boolean
  /** False: the output goes to a file or another program. */
  readonly isTerminal?: boolean
  /** What a person answers; left out: no person is there. */
  readonly answer?: string
  readonly env?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export async function curfew(line: string | readonly string[], said: Said = {}): Promise<Printed> {
  const args = typeof line === 'string' ? line.split(' ') : line
  const { answer, width = 80, colour = false, isTerminal = true, env = {}, signal } = said
  let out = ''
  let notes = ''
  const note = (text: string): void => void (notes += `${text}\n`)
  const code = await runCurfew(args, {
    env,
    width,
    colour,
    isTerminal,
    note,
    write: (text) => void (out += `${text}\n`),
    ...(signal === undefined ? {} : { signal }),
    ...(answer === undefined
      ? {}
      : {
          ask: (question: string) => {
            note(question)
            return Promise.resolve(answer)
          },
        }),
  })
  return { code, out, notes }
}

/** Calls of the command go to this server, without sockets. `streams`: how many were opened. */
export function reach(server: TestServer): { streams: number } {
  const stage = { streams: 0 }
  vi.stubGlobal(
    'fetch',
    async (
      address: string,
      init: { method: string; headers: Record<string, string>; body?: string; signal?: AbortSignal },
    ) => {
      const { pathname, search } = new URL(address)
      const { status, body } = await server.handler({
        method: init.method,
        url: pathname + search,
        headers: init.headers,
        body: init.body ?? '',
        signal: init.signal ?? new AbortController().signal,
      })
      if (typeof body === 'string') return new Response(status === 204 ? null : body, { status })
      stage.streams += 1
      return new Response(streamOf(body), { status })
    },
  )
  return stage
}

function streamOf(chunks: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const texts = chunks[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      const next = await texts.next()
      if (next.done === true) controller.close()
      else controller.enqueue(encoder.encode(next.value))
    },
    cancel() {
      void texts.return?.()
    },
  })
}
