import { Client } from '@curfew/sdk'
import express from 'express'
import { createReport, makeWorker, readReport, token, url } from '../reports.mjs'
import { stopOnSignal } from '../shutdown.mjs'

const client = new Client({ url, token })
const worker = makeWorker()
const app = express()
app.use(express.json())

// Express 5 passes a rejected promise to its error handler by itself.
app.post('/reports', async (request, response) => {
  const { status, body } = await createReport(client, request.body)
  response.status(status).json(body)
})
app.get('/reports/:id', async (request, response) => {
  const { status, body } = await readReport(client, request.params.id)
  response.status(status).json(body)
})

await worker.start()
const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
stopOnSignal({ closeHttp: () => new Promise((resolve) => void server.close(resolve)), worker, client })
