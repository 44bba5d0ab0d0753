// What these examples share: a client, a server that answers for all the services they call, and the wall clock.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from '@curfew/sdk'

export const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
export const client = new Client({ url })

/**
 * Answers for `https://<name>.example` with what `answers[name]` says at that moment: `{ body, status, afterMs }`, or a
 * function of what was asked that gives it.
 */
export async function upstream(answers) {
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const [, name, ...path] = request.url.split('/')
    const given = answers[name] ?? { status: 404 }
    const asked = { method: request.method, path: `/${path.join('/')}`, body: text === '' ? null : JSON.parse(text) }
    const { body = {}, status = 200, afterMs = 0 } = typeof given === 'function' ? given(asked) : given
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    try {
      await pause(afterMs, null, { signal: gone.signal })
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    } catch {
      // The caller has hung up: that is what a deadline does.
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  return {
    /** The definition beside the program, with its hosts here and a version of its own. */
    definition(from) {
      const text = readFileSync(new URL('journey.yaml', from), 'utf8')
      return text
        .replaceAll(/https:\/\/([a-z-]+)\.example/g, `http://127.0.0.1:${port}/$1`)
        .replace('version: 1.0.0', `version: 1.0.0-demo.${port}`)
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** How long something took, as people say it. */
export async function timed(work) {
  const from = performance.now()
  const value = await work()
  return [value, `${((performance.now() - from) / 1000).toFixed(1)} s`]
}

/** When the run has come to this state. */
export async function arrived(run, state) {
  for (;;) {
    const status = await client.journeys.status(run)
    if (status.currentState === state || status.phase !== 'RUNNING') return status
    await pause(20)
  }
}
