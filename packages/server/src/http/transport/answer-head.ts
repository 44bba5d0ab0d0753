/** The head of an answer, as `node:http` would write it: the same lines in the same order. */
import { STATUS_CODES } from 'node:http'
import type { HttpResponse } from '../api/message.ts'

/** Anything else could end the line, or the head. */
const LINE = /^[\t\x20-\x7e]*$/
const NAME = /^[\w!#$%&'*+.^`|~-]+$/

const statusLines = new Map<number, string>()
const goodNames = new Set<string>()

/** Status line and headers, without the empty line after them. Throws on what would break them. */
export function headText(status: number, headers: HttpResponse['headers']): string {
  let text = statusLines.get(status) ?? statusLine(status)
  for (const name in headers) {
    const value = headers[name] ?? ''
    if (!goodNames.has(name)) learnName(name)
    if (!LINE.test(value)) throw new Error(`the value of ${name} cannot be sent in a header`)
    text += `${name}: ${value}\r\n`
  }
  return text
}

function statusLine(status: number): string {
  const line = `HTTP/1.1 ${String(status)} ${STATUS_CODES[status] ?? 'unknown'}\r\n`
  statusLines.set(status, line)
  return line
}

/** They are written in our code: there are a dozen. */
function learnName(name: string): void {
  if (!NAME.test(name)) throw new Error(`${name} is not a valid header name`)
  goodNames.add(name)
}
