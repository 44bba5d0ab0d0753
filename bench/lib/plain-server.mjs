// The yardstick: node:http reads and parses the same body, answers one of the same size, and stores nothing.
import { Buffer } from 'node:buffer'
import { createServer } from 'node:http'

const answer = 'x'.repeat(Number(process.argv[2]) - 2)

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const { type } = JSON.parse(Buffer.concat(chunks).toString())
    if (typeof type !== 'string') throw new Error('not the body it should be')
    const body = JSON.stringify(answer)
    response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
    response.end(body)
  })
})
// A client may be quiet for a while between two rounds.
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`))
