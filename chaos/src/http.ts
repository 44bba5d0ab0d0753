/** Calls of plain HTTP clients: one try with one server, and no more. */
import { Agent, request } from 'node:http'

export interface Reply {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

const agent = new Agent({ keepAlive: true })

/** Null: no answer, which says nothing about what the server did. */
export function call(
  url: string,
  method: string,
  path: string,
  body: unknown,
  timeoutMs: number,
  more: Readonly<Record<string, string>> = {},
): Promise<Reply | null> {
  const text = body === undefined ? '' : JSON.stringify(body)
  return new Promise((resolve) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), ...more }
    const made = request(`${url}${path}`, { method, agent, headers }, (response) => {
      let received = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (received += chunk))
      response.on('error', () => {
        resolve(null)
      })
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: parsed(received) })
      })
    })
    const timer = setTimeout(() => made.destroy(), timeoutMs)
    made.on('close', () => {
      clearTimeout(timer)
      resolve(null)
    })
    made.on('error', () => {})
    made.end(text)
  })
}

function parsed(text: string): Reply['body'] {
  try {
    return JSON.parse(text) as Reply['body']
  } catch {
    return {}
  }
}
