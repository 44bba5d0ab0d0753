// Answers anything at once, without looking: against it the client shows what it can do itself.
import { Buffer } from 'node:buffer'
import { createServer } from 'node:net'

const body = 'x'.repeat(Number(process.argv[2]))
const answer = Buffer.from(`HTTP/1.1 201 Created\r\nContent-Length: ${body.length}\r\n\r\n${body}`)

const server = createServer((socket) => {
  socket.setNoDelay(true)
  socket.on('data', () => socket.write(answer))
  socket.on('error', () => {})
})
server.listen(0, '127.0.0.1', () => process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`))
