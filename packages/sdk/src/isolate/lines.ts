import type { Readable } from 'node:stream'

/** Calls `onLine` for every whole line. JSON text holds no line ends of its own. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let parts: string[] = []
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    let from = 0
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      parts.push(chunk.slice(from, end))
      onLine(parts.join(''))
      parts = []
      from = end + 1
    }
    if (from < chunk.length) parts.push(chunk.slice(from))
  })
}
