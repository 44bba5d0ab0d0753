import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readLines } from './lines.ts'

test('lines are whole, however they are cut on the way', async () => {
  const text = '{"a":"ä"}\n\n{"b":2}\nunfinished'
  for (let size = 1; size < 12; size += 1) {
    const bytes = Buffer.from(text)
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    )
    const lines: string[] = []
    const stream = Readable.from(chunks, { objectMode: false })
    readLines(stream, (line) => lines.push(line))
    await new Promise((resolve) => stream.once('end', resolve))
    expect(lines).toEqual(['{"a":"ä"}', '', '{"b":2}'])
  }
})
