// A route handler only enqueues: where Next.js runs as functions that come and go, a worker has no place to live. Run it
// beside: node examples/web/worker.mjs
import { createReport } from '../../../../reports.mjs'
import { client } from '../../../client.mjs'

export const dynamic = 'force-dynamic'

export async function POST(request) {
  const { status, body } = await createReport(client, await request.json())
  return Response.json(body, { status })
}
