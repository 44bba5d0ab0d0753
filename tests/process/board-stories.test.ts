/** What an operator comes for, on each store: in a real browser, against a real server and real workers. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { browserPath } from '../../scripts/browser.mjs'
import { Cluster } from '../postgres/cluster.ts'
import { deaf, expectNoFaults, openCrew, openPage, patient, seen, settled } from './board-stage.ts'
import { openBrowser } from './browser.ts'
import { deploy, start, succeed, wait } from './journeys/stage.ts'
import { ServerProcess, until, type Reply } from './server-process.ts'

let browser: Browser
let cluster: Cluster

/** Flags of a server on the store; `name` keeps servers on one database apart. */
const STORES: [name: string, flags: (name: string) => string[]][] = [
  ['SQLite', () => []],
  ['PostgreSQL', (name) => ['--database', `${cluster.url()}?schema=${name}`]],
]

describe.skipIf(browserPath() === null)('on the board', () => {
  beforeAll(async () => {
    ;[browser, cluster] = await Promise.all([openBrowser(), Cluster.start()])
  })
  afterAll(() => Promise.all([browser.close(), cluster.remove()]))

  describe.each(STORES)('of a server on %s', (_, flagsOf) => {
    let server: ServerProcess

    beforeAll(async () => {
      server = await ServerProcess.start({ flags: flagsOf('stories') })
    })
    afterAll(() => server.stop())

    test('an operator finds a timed-out job by its kind, reads why, retries it and watches it finish', async () => {
      const { client, letGo } = await openCrew(server)
      const job = await client.enqueue(deaf, [], { timeout: '3s', gracePeriod: '200ms', retry: { maxAttempts: 1 } })
      await until('it timed out', async () => (await server.job(job.id)).state === 'discarded')
      const watched = await openPage(browser, `${server.url}/jobs`)
      const { page } = watched
      await page.getByLabel('Ended by limit').selectOption('execution')
      await page.waitForURL(/timeout_kind=execution/)
      await page.locator(`a[title="${job.id}"]`).click()
      await page.waitForURL(new RegExp(`/jobs/${job.id}$`))
      await seen(page, /Ended discarded: timeout/)
      // At the hard deadline the server ends it, and the worker reports it: the words are those of the first of them.
      await seen(page, /Job execution exceeded timeout of 3 seconds|Timed out after 3s/)
      expect(await page.getByRole('region', { name: 'Limits' }).innerText()).toMatch(/timeout\s+3 s\s+● set at enqueue/)
      letGo()
      await page.getByRole('button', { name: 'Retry' }).click()
      await page.getByRole('heading', { name: /completed/ }).waitFor()
      expect((await server.job(job.id)).state).toBe('completed')
      expectNoFaults(watched)
    })

    test("a job's soft and hard deadline approach and pass while one looks", async () => {
      const { client } = await openCrew(server)
      const job = await client.enqueue(deaf, [], { timeout: '7s', gracePeriod: '3s', retry: { maxAttempts: 1 } })
      const watched = await openPage(browser, `${server.url}/jobs/${job.id}`)
      const { page } = watched
      const drawing = page.locator('svg.timeline')
      await seen(page, /Next: asked to stop in/)
      // A vertical line has no width, so it counts as hidden.
      for (const limit of ['soft_deadline', 'hard_deadline'])
        await drawing.locator(`line.${limit}`).first().waitFor({ state: 'attached' })
      const place = async (): Promise<number> => Number(await drawing.locator('line.now').getAttribute('x1'))
      const before = await place()
      await until('the line of now moves', async () => (await place()) > before)
      // The grace has begun: its part of the bar is there, and it is no longer to come.
      await drawing.locator('rect.grace:not(.future)').first().waitFor()
      await seen(page, /Next: attempt ends/)
      await page.getByRole('heading', { name: /discarded/ }).waitFor()
      await seen(page, /Ended discarded: timeout/)
      await page.getByRole('button', { name: 'Show as a table' }).click()
      await page.getByRole('region', { name: 'Timeline as a table' }).getByText('asked to stop').first().waitFor()
      expectNoFaults(watched)
    })

    test('an operator sees the blast radius of a worker, and quiets and then terminates it', async () => {
      const { client, worker, letGo } = await openCrew(server, ['radius'])
      const kept = await client.enqueue(patient, [], { queue: 'radius', timeout: '10m', retry: { maxAttempts: 3 } })
      const last = await client.enqueue(patient, [], { queue: 'radius', timeout: '10m', retry: { maxAttempts: 1 } })
      await until('both are taken', async () => {
        const { body } = await server.get('/ojs/v1/jobs?queue=radius&state=active')
        return (body.jobs as unknown[]).length === 2
      })
      const id = worker.id
      const watched = await openPage(browser, `${server.url}/workers/${encodeURIComponent(id)}`)
      const { page } = watched
      await seen(page, '1 would come back, 1 would end.')
      await page.getByRole('button', { name: 'Quiet…' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByText('The 2 it holds go on.').waitFor()
      await dialog.getByText('No other running worker serves radius: jobs there will wait.').waitFor()
      for (const job of [kept, last]) await dialog.locator(`a[title="${job.id}"]`).waitFor()
      expect((await server.get(`/ojs/v1/workers/${id}`)).text).not.toContain('"directive":"quiet"')
      await dialog.getByRole('button', { name: 'Quiet it' }).click()
      await page.getByRole('button', { name: 'Resume' }).waitFor()
      await page.getByRole('heading', { name: /quiet/ }).waitFor()
      await page.getByRole('button', { name: 'Terminate…' }).click()
      await dialog.getByText('lets the 2 it holds finish, and exits').waitFor()
      await dialog.getByText('1 would come back, 1 would end.').waitFor()
      expect((await server.get(`/ojs/v1/workers/${id}`)).text).not.toContain('"directive":"terminate"')
      await dialog.getByRole('button', { name: 'Terminate it' }).click()
      await until('the worker hears it', () => worker.state !== 'running' && worker.state !== 'quiet')
      expectNoFaults(watched)
      // Then the worker exits, and a page that asks for it once more gets 404, which the browser logs.
      await page.goto('about:blank')
      letGo()
      await until('what it held is finished', async () => {
        const states = await Promise.all([kept, last].map(async (job) => String((await server.job(job.id)).state)))
        return states.every((state) => state === 'completed')
      })
    })

    test('an operator answers a step of a journey that waits, in a form made from its schema', async () => {
      const schema = {
        type: 'object',
        required: ['approved'],
        properties: {
          approved: { type: 'boolean', title: 'Approved' },
          again: { type: 'boolean' },
          cents: { type: 'integer' },
          note: { type: 'string' },
        },
      }
      const states = { approve: wait('done', { input: { schema } }), done: succeed() }
      await deploy(server, 'approval', { seconds: 600, states })
      const id = await start(server, 'approval')
      const watched = await openPage(browser, `${server.url}/runs/${id}`)
      const { page } = watched
      const form = page.getByRole('form', { name: 'Step approve' })
      await form.getByLabel(/Approved/).selectOption('true')
      await form.getByLabel('again').selectOption('false')
      await form.getByLabel('cents').fill('250')
      await form.getByLabel('note').fill('<b>fine</b>')
      await form.getByRole('button', { name: 'Submit' }).click()
      await page.getByRole('heading', { name: /succeeded/ }).waitFor()
      const result = await server.get(`/api/v1/journeys/${id}/result`)
      expect(result.body).toMatchObject({ phase: 'SUCCEEDED' })
      expect(JSON.stringify(result.body)).toContain(
        JSON.stringify({ approved: true, again: false, cents: 250, note: '<b>fine</b>' }).slice(1, -1),
      )
      expectNoFaults(watched)
    })

    test('a token with the role read sees everything, is offered no action and is refused each of them', async () => {
      const closed = await ServerProcess.start({ flags: ['--token', ADMIN, ...flagsOf('closed')] })
      onTestFinished(() => closed.stop().then(() => {}))
      const { paths, changes } = await furnished(closed)
      const admin = { Authorization: `Bearer ${ADMIN}` }
      const { body } = await closed.call('POST', '/api/v1/tokens', { name: 'reader', roles: ['read'] }, admin)
      const [first = ''] = paths
      const opened = await Promise.all(
        [String(body.token), ADMIN].map(() => openPage(browser, closed.url + first, { mayFail: /401|403|404/ })),
      )
      const [reader, chief] = opened.map(({ page }) => page) as [Page, Page]
      const signIn = async (page: Page, token: string): Promise<void> => {
        await page.getByLabel('Token').fill(token)
        await page.getByRole('button', { name: 'Sign in' }).click()
      }
      await signIn(reader, 'wrong')
      await reader.getByRole('alert').waitFor()
      await signIn(reader, String(body.token))
      await signIn(chief, ADMIN)
      // Signing in leads to where one wanted to go.
      for (const page of [reader, chief]) await page.getByRole('heading', { name: 'Jobs' }).waitFor()
      const [shown, all] = await Promise.all([offered(reader, closed.url, paths), offered(chief, closed.url, paths)])
      expect([...shown]).toEqual(paths.map((path) => [path, []]))
      // The same pages have actions for others.
      expect([...all].filter(([, names]) => names.length > 0).length).toBeGreaterThanOrEqual(8)
      const statuses = await reader.evaluate(
        (asked) =>
          Promise.all(
            asked.map((path) =>
              fetch(path, {
                method: 'POST',
                headers: { 'X-Curfew-Request': '1', 'Content-Type': 'application/json' },
                body: '{}',
              }).then((answer) => answer.status),
            ),
          ),
        changes,
      )
      expect(changes.map((path, n) => [path, statuses[n]])).toEqual(changes.map((path) => [path, 403]))
      expect(await reader.evaluate('[document.cookie, sessionStorage.length, localStorage.length]')).toEqual(['', 0, 0])
      expectNoFaults(...opened)
    })
  })
})

const ADMIN = 'the-first-token-of-this-test'

/** What a server with tokens shows and allows, to each role. */
async function furnished(server: ServerProcess): Promise<{ paths: string[]; changes: string[] }> {
  const call = async (method: string, path: string, body?: unknown): Promise<Reply> => {
    const reply = await server.call(method, path, body, { Authorization: `Bearer ${ADMIN}` })
    expect([path, reply.status < 300]).toEqual([path, true])
    return reply
  }
  const made = async (more: object): Promise<string> =>
    String((await call('POST', '/ojs/v1/jobs', { type: 'a.job', args: [], ...more })).body.job.id)
  const job = await made({})
  const dead = await made({ queue: 'dying', retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  const worker = { worker_id: 'w-1', hostname: 'h', pid: 1, queues: ['dying'], concurrency: 1, labels: [] }
  await call('POST', '/ojs/v1/workers/register', worker)
  await call('POST', '/ojs/v1/workers/fetch', { queues: ['dying'], worker_id: 'w-1' })
  await call('POST', '/ojs/v1/workers/nack', { job_id: dead, worker_id: 'w-1', error: { message: 'no' } })
  await call('POST', '/ojs/v1/cron', { name: 'yearly', expression: '0 0 1 1 *', type: 'a.job', args: [] })
  const steps = [{ type: 'a.job', args: [] }]
  const flow = await call('POST', '/ojs/v1/workflows', { name: 'one', type: 'chain', steps })
  return {
    paths: [
      ...['/jobs?queue=default', `/jobs/${job}`, `/jobs/${dead}`, '/queues/default', '/workers/w-1', '/dead-letters'],
      ...[`/workflows/${String(flow.body.workflow.id)}`, '/cron', '/types/a.job', '/incident', '/settings'],
    ],
    changes: [
      ...[`/ojs/v1/admin/jobs/${job}/cancel`, `/ojs/v1/admin/jobs/${dead}/retry`, '/ojs/v1/admin/jobs/bulk/cancel'],
      ...['/ojs/v1/queues/default/pause', '/ojs/v1/admin/workers/w-1/quiet', '/ojs/v1/admin/workers/w-1/terminate'],
      ...[`/ojs/v1/dead-letter/${dead}/retry`, '/ojs/v1/cron/yearly/trigger', '/api/v1/tokens', '/ojs/v1/jobs'],
    ],
  }
}

/** Buttons that change nothing on the server. */
const HARMLESS = /^(Search|Read again|Show as a table|Replay the last .*|Copy|Dismiss|Sign out .*)$/

/** The names of buttons that a page offers for changes. */
async function offered(page: Page, url: string, paths: readonly string[]): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  for (const path of paths) {
    await page.goto(url + path)
    await settled(page)
    const names = await page.locator('main button').allInnerTexts()
    found.set(
      path,
      names.filter((name) => !HARMLESS.test(name)),
    )
  }
  return found
}
