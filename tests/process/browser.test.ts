/** What web pages can do to a server without a token, tried by a real browser: nothing, unless the page is the server's. */
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { browserPath } from '../../scripts/browser.mjs'
import { openBrowser, pageAt, pageElsewhere } from './browser.ts'
import { ServerProcess } from './server-process.ts'

const SCRIPT = fileURLToPath(new URL('foreign-page.js', import.meta.url))

describe.skipIf(browserPath() === null)('in a browser', () => {
  let browser: Browser
  let server: ServerProcess
  let id: string

  beforeAll(async () => {
    browser = await openBrowser()
    server = await ServerProcess.start()
  })

  beforeEach(async () => {
    await server.post('/ojs/v1/queues/default/resume')
    id = String((await server.enqueue()).id)
  })

  afterAll(async () => {
    await browser.close()
    await server.stop()
  })

  /** Everything that a page could have changed. */
  const state = async (): Promise<unknown> => ({
    events: (await server.get('/ojs/v1/events')).text,
    jobs: (await server.get('/ojs/v1/jobs')).body.pagination.total as unknown,
    queue: (await server.get('/ojs/v1/admin/queues/default')).body as unknown,
    webhooks: (await server.get('/ojs/v1/webhooks/subscriptions')).text,
  })

  /** Answers what the page could read. */
  const attack = async (page: Page, base: string): Promise<string[]> => {
    await page.addScriptTag({ path: SCRIPT })
    return page.evaluate(`attack(${JSON.stringify(base)}, ${JSON.stringify(id)})`)
  }

  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['localhost', '127.0.0.1'],
    ['evil.test', 'localhost'],
  ])('a page on another port of %s changes nothing and reads nothing at %s', async (name, host) => {
    const page = await pageElsewhere(browser, name)
    const before = await state()
    expect(await attack(page, `http://${host}:${String(server.port)}`)).toEqual([])
    expect(await state()).toEqual(before)
  })

  test('a page whose name points to the server changes nothing and reads nothing but why', async () => {
    const base = `http://evil.test:${String(server.port)}`
    const page = await pageAt(browser, `${base}/health`)
    const before = await state()
    const read = await attack(page, base)
    expect(read.length).toBeGreaterThan(0)
    for (const text of read) expect(text).toContain('does not serve the host name')
    expect(await page.locator('body').textContent()).toContain('--allowed-hosts')
    expect(await state()).toEqual(before)
  })

  test("a page of the server's own does what it is there for", async () => {
    const page = await pageAt(browser, `${server.url}/health`)
    const answered = await page.evaluate(async () => {
      const made = await fetch('/ojs/v1/jobs', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: '{"type":"own","args":[]}',
      })
      const { job } = (await made.json()) as { job: { id: string } }
      const gone = await fetch(`/ojs/v1/jobs/${job.id}`, { method: 'DELETE' })
      return [made.status, gone.status]
    })
    expect(answered).toEqual([201, 200])
  })
})
