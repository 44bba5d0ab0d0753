import { readReport } from '../../../../../reports.mjs'
import { client } from '../../../../client.mjs'

export async function GET(_request, { params }) {
  const { status, body } = await readReport(client, (await params).id)
  return Response.json(body, { status })
}
