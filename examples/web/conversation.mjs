// What every variant must do, over HTTP: used by the tests and by `npm run examples`.
import assert from 'node:assert/strict'

async function call(url, body) {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(url, body === undefined ? {} : init)
  return { status: response.status, body: await response.json() }
}

async function created(base, body) {
  const answer = await call(`${base}/reports`, body)
  assert.equal(answer.status, 202)
  return answer.body.id
}

/** Each read waits up to two seconds; a busy machine may need more of them. */
async function read(base, id) {
  for (let reads = 0; ; reads += 1) {
    const answer = await call(`${base}/reports/${id}`)
    if (answer.status !== 202 || reads === 20) return answer
  }
}

/** Enqueues and reads; `terminate` sends SIGTERM and resolves with the exit code. A job that runs then is finished. */
export async function converse(base, { client, terminate }) {
  assert.equal((await call(`${base}/reports`, {})).status, 400)
  const id = await created(base, { name: 'q3' })
  assert.deepEqual(await read(base, id), { status: 200, body: { name: 'q3', pages: 2 } })
  assert.equal((await call(`${base}/reports/01890000-0000-7000-8000-000000000000`)).status, 404)

  const slow = await created(base, { name: 'slow', ms: 1_500 })
  while ((await client.get(slow)).state !== 'active') await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(await terminate(), 0)
  const { state, attempt } = await client.get(slow)
  assert.deepEqual({ state, attempt }, { state: 'completed', attempt: 1 })
}
