import { Client } from '@curfew/sdk'
import Fastify from 'fastify'
import { createReport, makeWorker, readReport, token, url } from '../reports.mjs'
import { stopOnSignal } from '../shutdown.mjs'

const client = new Client({ url, token })
const worker = makeWorker()
const app = Fastify()

app.post('/reports', async (request, reply) => {
  const { status, body } = await createReport(client, request.body)
  return reply.code(status).send(body)
})
app.get('/reports/:id', async (request, reply) => {
  const { status, body } = await readReport(client, request.params.id)
  return reply.code(status).send(body)
})

await worker.start()
console.log(`listening on ${await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' })}`)
stopOnSignal({ closeHttp: () => app.close(), worker, client })
