/** The board in a real browser, against a real server and a real worker. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { browserPath } from '../../scripts/browser.mjs'
import { deaf, expectNoFaults, openCrew, openPage, pagesOf, seen, settled, sprint } from './board-stage.ts'
import { openBrowser } from './browser.ts'
import { deploy, start, succeed, wait } from './journeys/stage.ts'
import { ServerProcess, until } from './server-process.ts'

const built = fileURLToPath(new URL('../../packages/server/dist/board', import.meta.url))

test('the first load of the board is at most 50 KB compressed, and all of it at most 90 KB', () => {
  const shell = readFileSync(join(built, 'index.html'), 'utf8')
  const sizeOf = (name: string): number => statSync(join(built, 'board', `${name}.gz`)).size
  const first = [...shell.matchAll(/board\/([\w.-]+\.(?:js|css))/g)].map(([, name = '']) => name)
  // The first page is in the first script: no other is asked for.
  expect(first.length).toBeGreaterThanOrEqual(2)
  const firstBytes = Buffer.byteLength(shell) + first.reduce((sum, name) => sum + sizeOf(name), 0)
  const all = readdirSync(join(built, 'board')).filter((name) => name.endsWith('.gz'))
  const allBytes = all.reduce((sum, name) => sum + statSync(join(built, 'board', name)).size, 0)
  expect(firstBytes).toBeGreaterThan(5_000)
  expect(firstBytes).toBeLessThanOrEqual(50_000)
  expect(allBytes).toBeLessThanOrEqual(90_000)
})

describe.skipIf(browserPath() === null)('on the board', () => {
  let browser: Browser
  let server: ServerProcess

  beforeAll(async () => {
    browser = await openBrowser()
    server = await ServerProcess.start()
  })
  afterAll(async () => {
    await browser.close()
    await server.stop()
  })

  test('an empty server greets with a command that works, and takes a first job', async () => {
    const empty = await ServerProcess.start()
    onTestFinished(() => empty.stop().then(() => {}))
    const watched = await openPage(browser, `${empty.url}/`)
    const { page } = watched
    await seen(page, 'This server is up, and empty')
    const command = await page.locator('pre').innerText()
    const body = /-d '(.*)'/s.exec(command)?.[1] ?? ''
    expect((await empty.post('/ojs/v1/jobs', body)).status).toBe(201)
    await page.getByRole('heading', { name: 'Now' }).waitFor()
    await seen(page, 'no registered worker serves it')
    expectNoFaults(watched)
  })

  test('the demo jobs of an empty server come to their ends without a worker, as the page says', async () => {
    const empty = await ServerProcess.start()
    onTestFinished(() => empty.stop().then(() => {}))
    const watched = await openPage(browser, `${empty.url}/`)
    await watched.page.getByRole('button', { name: 'Send the demo jobs' }).click()
    const endings = async (): Promise<string[]> => {
      const { body } = await empty.get('/ojs/v1/jobs?queue=demo')
      const jobs = body.jobs as { type: string; state: string; error?: { type: string } }[]
      return jobs.map(({ type, state, error }) => `${type} ${state} ${error?.type ?? ''}`.trim()).sort()
    }
    await until(
      'all but two have ended',
      async () => (await endings()).filter((each) => !each.includes('available')).length === 4,
    )
    expect(await endings()).toEqual([
      'demo.cancelled cancelled',
      'demo.later discarded expired',
      'demo.retried available',
      'demo.too-old discarded enqueue_ttl_expired',
      'demo.total discarded total_timeout',
      'demo.work available',
    ])
    expectNoFaults(watched)
  })

  test('the last moments of a job that is over are replayed, by hand and in UTC', async () => {
    const job = (await server.enqueue({ queue: 'replayed', enqueue_ttl_ms: 1_000 })) as {
      id: string
      created_at: string
    }
    await until('it has ended', async () => (await server.job(job.id)).state === 'discarded')
    const watched = await openPage(browser, `${server.url}/settings`)
    const { page } = watched
    await page.getByLabel('Times').selectOption('utc')
    await page.goto(`${server.url}/jobs/${job.id}`)
    await seen(page, /^Ended discarded: enqueue_ttl_expired/)
    await seen(page, `${job.created_at.slice(11, 19)}Z`)
    expect(await page.locator('svg.timeline line.now').count()).toBe(0)
    const slider = page.getByRole('slider', { name: /As it was at/ })
    await slider.fill(String(Date.parse(job.created_at) + 500))
    await seen(page, 'At this moment: it waits for a worker.')
    await page.locator('svg.timeline line.now').waitFor({ state: 'attached' })
    await slider.press('End')
    await seen(page, /^Ended discarded: enqueue_ttl_expired/)
    await page.getByRole('button', { name: 'Replay the last' }).click()
    await seen(page, 'At this moment: it waits for a worker.')
    await page.getByRole('button', { name: 'Hold' }).click()
    expectNoFaults(watched)
  })

  test('an operator notes a deploy, and finds it beside what happened and on the first page, with deadlines to come', async () => {
    await server.enqueue({ queue: 'noted', total_timeout_ms: 600_000 })
    const watched = await openPage(browser, `${server.url}/incident`)
    const { page } = watched
    await page.getByLabel('Note').fill('deployed media 1.4 | <b>now</b>')
    await page.getByLabel('Minutes ago').fill('30')
    await page.getByRole('button', { name: 'Add note' }).click()
    await page.getByRole('row', { name: /note operator deployed media 1\.4 \| <b>now<\/b>/ }).waitFor()
    // A bar would end the cell of a table in Markdown.
    await seen(page, /\| note \| operator \| deployed media 1\.4 \\\| <b>now<\/b> \|/)
    await page.getByRole('link', { name: 'Now', exact: true }).click()
    await page.getByLabel('Notes of operators').getByText('30 min ago').waitFor()
    const coming = page.getByLabel('Deadlines to come')
    await coming.getByText(/total \d/).waitFor()
    await coming.getByRole('img', { name: /deadlines, by minute from now/ }).waitFor()
    expectNoFaults(watched)
  })

  test('rows stay where they are while newer jobs come, until they are asked for', async () => {
    const make = (): Promise<{ id: string }> =>
      server.enqueue({ queue: 'still', type: 'still.job' }) as Promise<{ id: string }>
    const [first, second] = [await make(), await make()]
    const watched = await openPage(browser, `${server.url}/jobs?queue=still`)
    const { page } = watched
    const ids = (): Promise<string[]> =>
      page.evaluate("[...document.querySelectorAll('tbody a.id')].map((link) => link.title)")
    await page.locator(`a[title="${first.id}"]`).waitFor()
    expect(await ids()).toEqual([second.id, first.id])
    const third = await make()
    await server.call('DELETE', `/ojs/v1/jobs/${second.id}`)
    await page.getByRole('button', { name: 'Show 1 new' }).waitFor()
    expect(await ids()).toEqual([second.id, first.id])
    await page
      .locator('tr', { has: page.locator(`a[title="${second.id}"]`) })
      .getByText('cancelled')
      .waitFor()
    await page.getByRole('button', { name: 'Show 1 new' }).click()
    await until('the new one is first', async () => (await ids())[0] === third.id)
    expectNoFaults(watched)
  })

  test('many jobs are cancelled by filter only after the board has said what this hits', async () => {
    for (let made = 0; made < 3; made += 1) await server.enqueue({ queue: 'bulk' })
    const watched = await openPage(browser, `${server.url}/jobs?queue=bulk`)
    const { page } = watched
    await page.getByRole('button', { name: 'cancel all that fit…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('This would affect 3 jobs.').waitFor()
    await dialog.getByText('available 3').waitFor()
    await dialog.getByRole('button', { name: 'cancel 3' }).click()
    await until('they are cancelled', async () => {
      const { body } = await server.get('/ojs/v1/jobs?queue=bulk&state=cancelled')
      return body.pagination.total === 3
    })
    expectNoFaults(watched)
  })

  test('jobs are walked through by keyboard alone', async () => {
    await server.enqueue({ queue: 'locks' })
    const { id } = (await server.enqueue({ queue: 'keys', type: 'keys.job' })) as { id: string }
    const watched = await openPage(browser, `${server.url}/jobs`)
    const { page } = watched
    await page.locator('tbody tr').first().waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('queue:keys nonsense')
    await page.keyboard.press('Enter')
    await seen(page, /"nonsense" is not understood/)
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('queue:keys')
    await page.keyboard.press('Enter')
    await page.waitForURL(/queue=keys/)
    // The list before had this job too: only the new one has no other.
    await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
    await page.locator(`a[title="${id}"]`).waitFor()
    await page.locator('h1').focus()
    await page.locator('h1').blur()
    await page.keyboard.press('j')
    await page.locator('tr.at').waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(new RegExp(`/jobs/${id}$`))
    expectNoFaults(watched)
  })

  test('a server that falls silent is said to be, and what is shown turns grey', async () => {
    const doomed = await ServerProcess.start()
    await doomed.enqueue()
    const { page } = await openPage(browser, `${doomed.url}/jobs`)
    await seen(page, /Live, heard/)
    await doomed.kill()
    await seen(page, /Last heard .* ago/)
    await page.locator('main.stale').waitFor()
    const again = await ServerProcess.start({ data: doomed.data, flags: ['--port', String(doomed.port)] })
    onTestFinished(() => again.stop().then(() => {}))
    await seen(page, /Live, heard/)
    await page.locator('main:not(.stale)').waitFor()
  })

  test('the board works behind a prefix that a proxy takes away', async () => {
    const { id } = (await server.enqueue({ type: 'prefixed.job' })) as { id: string }
    const url = await prefixed(server, '/ops/curfew')
    const watched = await openPage(browser, `${url}/jobs/${id}`)
    const { page } = watched
    await page.locator('svg.timeline').waitFor()
    await page.getByRole('link', { name: 'Queues' }).click()
    await page.waitForURL(`${url}/queues`)
    await page.getByRole('link', { name: 'default', exact: true }).click()
    await page.getByRole('heading', { name: /default/ }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: /default/ }).waitFor()
    expect(
      await page.evaluate(
        "[...document.querySelectorAll('a[data-board]')].filter((link) => !link.pathname.startsWith('/ops/curfew/')).length",
      ),
    ).toBe(0)
    expectNoFaults(watched)
  })

  test('nothing serious stands in the way of assistive technology on any page, light, dark or narrow', async () => {
    const paths = pagesOf(await furnished(server))
    const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    for (const look of [{}, { colorScheme: 'dark' as const }, { viewport: { width: 360, height: 740 } }]) {
      // The policy of the page lets no foreign script in: axe comes in past it.
      const watched = await openPage(browser, `${server.url}/`, { ...look, bypassCSP: true, mayFail: /404/ })
      for (const path of paths) {
        await watched.page.goto(server.url + path)
        await settled(watched.page)
        await watched.page.evaluate(axe)
        const found = await watched.page.evaluate(
          "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html).join(' | ')))",
        )
        expect([path, found]).toEqual([path, []])
        const overflow = await watched.page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth')
        expect([path, overflow <= 0]).toEqual([path, true])
      }
      expectNoFaults(watched)
    }
  }, 300_000)

  test('markup in any text that a client can set is shown as text, and no policy is violated', async () => {
    const evil = `<img src=x onerror="alert(1)"><script>alert(2)</script>`
    await server.post('/ojs/v1/workers/register', {
      worker_id: 'evil',
      hostname: evil,
      pid: 1,
      queues: ['evil'],
      concurrency: 1,
      labels: [evil],
    })
    const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
    const job = (await server.enqueue({
      queue: 'evil',
      args: [evil],
      meta: { [evil]: evil },
      tags: [evil],
      retry,
    })) as { id: string }
    await server.fetch({ queues: ['evil'], worker_id: 'evil' })
    await server.post('/ojs/v1/workers/nack', {
      job_id: job.id,
      error: { type: evil, message: evil },
      x_log: { lines: [{ message: `log ${evil}`, fields: { [evil]: evil } }] },
    })
    await server.post('/ojs/v1/cron', {
      name: 'evil',
      expression: '0 0 1 1 *',
      type: 'evil.job',
      args: [evil],
      description: evil,
    })
    const flow = await server.post('/ojs/v1/workflows', {
      name: evil,
      type: 'chain',
      steps: [{ type: 'evil.job', args: [evil], queue: 'evil' }],
    })
    await deploy(server, 'evil-journey', {
      seconds: 600,
      states: {
        ask: wait('done', {
          input: {
            schema: { type: 'object', properties: { text: { type: 'string', title: evil, description: evil } } },
          },
        }),
        done: succeed(),
      },
    })
    const run = await start(server, 'evil-journey', { text: evil })
    await server.post('/api/v1/annotations', { text: evil })
    const ids = { job: job.id, worker: 'evil', workflow: String(flow.body.workflow.id), run }
    const watched = await openPage(browser, `${server.url}/`, { mayFail: /404/ })
    let shown = 0
    for (const path of [...pagesOf(ids), '/jobs?queue=evil', '/dead-letters?queue=evil']) {
      await watched.page.goto(server.url + path)
      await settled(watched.page)
      await watched.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
      const text = await watched.page.locator('body').innerText()
      if (text.includes('<script>alert(2)</script>')) shown += 1
      if (path === `/jobs/${job.id}`) expect(text).toContain(`log ${evil}`)
      expect([path, await watched.page.locator('img, main script').count()]).toEqual([path, 0])
    }
    // The first page and the incident with the note, the job, the worker, the workflow and its list, the run, the dead letters.
    expect(shown).toBeGreaterThanOrEqual(8)
    expectNoFaults(watched)
  }, 300_000)

  /** Something on every page. */
  async function furnished(on: ServerProcess): Promise<Parameters<typeof pagesOf>[0]> {
    const { client, worker } = await openCrew(on)
    const job = await client.enqueue(deaf, [], { timeout: '200ms', gracePeriod: '100ms', retry: { maxAttempts: 1 } })
    await client.enqueue(sprint, [])
    await on.post('/ojs/v1/cron', { name: 'yearly', expression: '0 0 1 1 *', type: 'test.sprint', args: [] })
    const flow = await on.post('/ojs/v1/workflows', {
      name: 'two',
      type: 'chain',
      steps: [
        { type: 'test.sprint', args: [] },
        { type: 'test.sprint', args: [] },
      ],
    })
    await deploy(on, 'asking', { seconds: 600, states: { ask: wait('done'), done: succeed() } })
    const run = await start(on, 'asking')
    await until('it timed out', async () => (await on.job(job.id)).state === 'discarded')
    return { job: job.id, worker: worker.id, workflow: String(flow.body.workflow.id), run }
  }
})

/** A proxy that serves a server below a prefix, as nginx does with `location /ops/curfew/ { proxy_pass http://…/; }`. */
async function prefixed(to: ServerProcess, prefix: string): Promise<string> {
  const proxy = createServer((request, response) => {
    if (request.url?.startsWith(`${prefix}/`) !== true) {
      response.writeHead(404).end()
      return
    }
    const { method, headers } = request
    const passed = httpRequest(
      { host: '127.0.0.1', port: to.port, method, headers, path: request.url.slice(prefix.length) },
      (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      },
    )
    passed.on('error', () => response.destroy())
    response.on('close', () => passed.destroy())
    request.pipe(passed)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  return `http://127.0.0.1:${String((proxy.address() as AddressInfo).port)}${prefix}`
}
