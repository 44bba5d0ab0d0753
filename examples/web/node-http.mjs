// The same without a framework: the smallest adapter there is. The tests run this one.
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { Client } from '@curfew/sdk'
import { createReport, makeWorker, readReport, token, url } from './reports.mjs'
import { stopOnSignal } from './shutdown.mjs'

const client = new Client({ url, token })
const worker = makeWorker()

const server = createServer(async (request, response) => {
  const [, id] = /^\/reports\/([^/]+)$/.exec(request.url) ?? []
  const answer =
    request.method === 'POST' && request.url === '/reports'
      ? await createReport(client, await json(request))
      : id === undefined
        ? { status: 404, body: { error: 'no such page' } }
        : await readReport(client, id)
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
})

await worker.start()
server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
stopOnSignal({
  closeHttp: () => new Promise((resolve) => void server.close(resolve)), // idle connections are closed, busy ones finish
  worker,
  client,
})
