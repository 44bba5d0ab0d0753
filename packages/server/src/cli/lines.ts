/**
 * Bytes to lines. A line ends with LF and with nothing else: U+2028 and CR may stand in what a client sent. Bytes that
 * are no UTF-8 are refused, because they would come out as something else.
 */
const LF = 0x0a
/** More than the largest record can need, and far less than the longest string there can be. */
const MAX_LINE = 128 * 1024 * 1024

export class BadLine extends Error {
  constructor(number: number, message: string) {
    super(`line ${String(number)}: ${message}`)
  }
}

export interface NumberedLine {
  readonly number: number
  readonly text: string
}

export async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let number = 0
  let parts: Uint8Array[] = []
  let length = 0
  const line = (): NumberedLine => {
    number += 1
    const bytes = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
    parts = []
    length = 0
    try {
      return { number, text: decoder.decode(bytes) }
    } catch {
      throw new BadLine(number, 'not valid UTF-8')
    }
  }
  const take = (part: Uint8Array): void => {
    length += part.length
    if (length > MAX_LINE) throw new BadLine(number + 1, 'the line is too long to be a record')
    parts.push(part)
  }
  for await (const chunk of input) {
    let from = 0
    for (let to = chunk.indexOf(LF); to >= 0; to = chunk.indexOf(LF, from)) {
      take(chunk.subarray(from, to))
      yield line()
      from = to + 1
    }
    if (from < chunk.length) take(chunk.subarray(from))
  }
  if (length > 0) yield line()
}
