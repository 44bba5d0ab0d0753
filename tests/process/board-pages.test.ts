/** What pages of the board say and do, each against the server: numbers, filters, links, actions. In one browser. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserPath } from '../../scripts/browser.mjs'
import { expectNoFaults, openPage, seen, settled } from './board-stage.ts'
import { openBrowser } from './browser.ts'
import { ServerProcess, until } from './server-process.ts'

/** The numbers of a list of tiles, by their names. */
async function tiles(page: Page, label: string): Promise<Record<string, string>> {
  const texts = await page.getByRole('list', { name: label, exact: true }).getByRole('listitem').allInnerTexts()
  return Object.fromEntries(
    texts.map((text) => {
      const [value = '', ...name] = text.split(/\s+/)
      return [name.join(' '), value]
    }),
  )
}

describe.skipIf(browserPath() === null)('a page of the board', () => {
  let browser: Browser
  let server: ServerProcess

  beforeAll(async () => {
    ;[browser, server] = await Promise.all([openBrowser(), ServerProcess.start()])
  })
  afterAll(() => Promise.all([browser.close(), server.stop()]))

  const made = async (fields: Record<string, unknown>): Promise<string> =>
    ((await server.enqueue(fields)) as { id: string }).id
  const taken = async (queue: string): Promise<void> => {
    await server.fetch({ queues: [queue], worker_id: 'w-pages' })
  }
  const failed = async (fields: Record<string, unknown>): Promise<string> => {
    const id = await made({ queue: 'failing', retry: { max_attempts: 1, on_exhaustion: 'dead_letter' }, ...fields })
    await taken('failing')
    await server.post('/ojs/v1/workers/nack', { job_id: id, error: { type: 'boom', message: 'it broke' } })
    return id
  }

  test('says how many jobs there are in each state, on Now and of a queue, and leads to them', async () => {
    for (let n = 0; n < 3; n += 1) await made({ queue: 'counted' })
    await taken('counted')
    await made({ queue: 'counted', scheduled_at: '2100-01-01T00:00:00Z' })
    await failed({ queue: 'failing' })
    const watched = await openPage(browser, `${server.url}/queues/counted`)
    const { page } = watched
    await page.getByRole('heading', { name: /counted/ }).waitFor()
    expect(await tiles(page, 'Jobs by state')).toMatchObject({
      available: '2',
      active: '1',
      scheduled: '1',
      completed: '0',
    })
    await page.getByRole('list', { name: 'Jobs by state' }).getByText('scheduled').click()
    await page.waitForURL(/\/jobs\?queue=counted&state=scheduled$/)
    await page.getByRole('status').getByText('1 found').waitFor()
    await page.goto(server.url)
    await page.getByRole('list', { name: 'Jobs', exact: true }).waitFor()
    const { body } = await server.get('/ojs/v1/admin/stats')
    const { available, active, scheduled, discarded } = body.jobs as Record<string, number>
    expect(await tiles(page, 'Jobs')).toMatchObject({
      waiting: String(available),
      active: String(active),
      scheduled: String(scheduled),
      discarded: String(discarded),
    })
    expectNoFaults(watched)
  })

  test('lists jobs with their budget and why they ended, and finds them by id, error and time', async () => {
    const id = await failed({ type: 'found.job' })
    const held = await made({ queue: 'budget', timeout: 1_000 })
    await taken('budget')
    const dying = await made({ queue: 'dying', enqueue_ttl_ms: 1 })
    await until('its time is up', async () => (await server.job(dying)).state === 'discarded')
    const watched = await openPage(browser, `${server.url}/jobs`)
    const { page } = watched
    const row = (job: string) => page.locator('tr', { has: page.locator(`a[title="${job}"]`) })
    await row(held).getByText('0 %', { exact: true }).waitFor()
    await row(held)
      .getByText(/asked to stop in 1\d min/)
      .waitFor()
    await row(dying)
      .getByText(/enqueue ttl 1 ms ●/)
      .waitFor()
    const find = async (text: string): Promise<void> => {
      await page.keyboard.press('/')
      await page.keyboard.press('ControlOrMeta+a')
      await page.keyboard.type(text)
      await page.keyboard.press('Enter')
      await page.locator('h1').focus()
    }
    await find('error:boom type:found.job')
    await page.waitForURL(/type=found\.job&error_type=boom/)
    await page.getByRole('status').getByText('1 found, newest first').waitFor()
    await row(id).getByText('boom').waitFor()
    await find(dying.slice(0, 23))
    await page.waitForURL(new RegExp(`id_prefix=${dying.slice(0, 23)}$`))
    await row(dying).waitFor()
    // No count is kept of these, and nothing can be done to all of them.
    expect(await page.getByRole('button', { name: /all that fit/ }).count()).toBe(0)
    await find('source:queue')
    await seen(page, 'No job fits these filters.')
    await find(id)
    await page.waitForURL(new RegExp(`/jobs/${id}$`))
    await page.goto(`${server.url}/jobs?since=15m&queue=dying`)
    await row(dying).waitFor()
    const [request] = await Promise.all([
      page.waitForRequest(/created_after/),
      page.getByLabel('Created within').selectOption('1h'),
    ])
    const from = Date.parse(new URL(request.url()).searchParams.get('created_after') ?? '')
    expect(Math.round((Date.now() - from) / 60_000 - 0.5)).toBeGreaterThanOrEqual(59)
    expectNoFaults(watched)
  })

  test('says how far a search has looked where that was not everything, and goes on from there', async () => {
    const watched = await openPage(browser, `${server.url}/settings`)
    const { page } = watched
    const { items } = (await server.get('/api/v1/board/jobs?limit=1')).body
    const end = {
      examined: 12,
      looked_back_to: null,
      complete: true,
      next_cursor: null,
      total: null,
      total_exact: false,
    }
    const cut = { ...end, items: [], examined: 20_000, looked_back_to: '2026-01-02T03:04:05.000Z', complete: false }
    await page.route('**/api/v1/board/jobs?*', (route) =>
      route.fulfill({
        contentType: 'application/json',
        body: JSON.stringify(
          route.request().url().includes('cursor=place') ? { ...end, items } : { ...cut, next_cursor: 'place' },
        ),
      }),
    )
    await page.getByLabel('Times').selectOption('utc')
    await page.goto(`${server.url}/jobs?tag=rare`)
    await seen(page, 'None of the jobs examined so far fits these filters. Older ones may.')
    await page
      .getByRole('status')
      .getByText(/0 shown; examined 20.000 jobs, back to 2026-01-02 03:04:05Z/)
      .waitFor()
    await page.getByRole('link', { name: 'Look further back' }).click()
    await page.waitForURL(/tag=rare&cursor=place/)
    await page.locator(`a[title="${String(items[0]?.id)}"]`).waitFor()
    expect(await page.getByRole('status').first().innerText()).not.toContain('examined')
    expectNoFaults(watched)
  })

  test('pauses and resumes a queue, after it has said what that means', async () => {
    await made({ queue: 'pausable' })
    const watched = await openPage(browser, `${server.url}/queues/pausable`)
    const { page } = watched
    const status = async (): Promise<unknown> => (await server.get('/ojs/v1/admin/queues/pausable')).body['status']
    await page.getByRole('button', { name: 'Pause…' }).click()
    await page.getByRole('dialog').getByText('No more of its jobs are handed out: 1 wait.').waitFor()
    expect(await status()).toBe('active')
    await page.getByRole('button', { name: 'Pause it' }).click()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Pause…' }).waitFor()
    expect(await status()).toBe('active')
    const { body } = await server.get('/ojs/v1/events?types=queue.*&queues=pausable')
    const types = (body.events as { type: string }[]).map(({ type }) => type)
    expect(types).toEqual(['queue.paused', 'queue.resumed'])
    expectNoFaults(watched)
  })

  test('leads through all queues, however many there are', async () => {
    const jobs = Array.from({ length: 101 }, (_, n) => ({ type: 'test.job', args: [], queue: `many-${String(n)}` }))
    await server.post('/ojs/v1/jobs/batch', { jobs })
    const watched = await openPage(browser, `${server.url}/queues`)
    const { page } = watched
    const more = page.getByRole('navigation', { name: 'More queues' })
    const names = (): Promise<string[]> => page.getByRole('rowheader').allInnerTexts()
    await more.getByText(/^1 to 100 of 1\d\d queues$/).waitFor()
    const first = await names()
    await more.getByRole('link', { name: 'Next' }).click()
    await page.waitForURL(/\?from=100$/)
    await more.getByText(/^101 to/).waitFor()
    const second = await names()
    expect(first).toHaveLength(100)
    expect(second.length).toBeGreaterThan(0)
    expect(second.filter((name) => first.includes(name))).toEqual([])
    await more.getByRole('link', { name: 'Before' }).click()
    await more.getByText(/^1 to 100/).waitFor()
    expectNoFaults(watched)
  })

  test('sends nothing where limits of a type are not valid JSON, and says so', async () => {
    const watched = await openPage(browser, `${server.url}/types/unset.job`, { mayFail: /404/ })
    const { page } = watched
    const save = page.getByRole('button', { name: 'Save' })
    expect(await save.isDisabled()).toBe(true)
    await page.getByRole('textbox').fill('{"timeout": }')
    await save.click()
    await page.getByText(/This is not valid JSON, and nothing was sent/).waitFor()
    expect((await server.get('/api/v1/job-types/unset.job')).status).toBe(404)
    expectNoFaults(watched)
  })

  test('retries one dead letter and deletes another', async () => {
    const [retried, deleted] = [await failed({ type: 'dead.one' }), await failed({ type: 'dead.two' })]
    const watched = await openPage(browser, `${server.url}/dead-letters?queue=failing`)
    const { page } = watched
    await page
      .getByRole('row', { name: /dead\.one.*boom it broke/ })
      .getByRole('button', { name: 'Retry' })
      .click()
    await until('it waits again', async () => (await server.job(retried)).state === 'available')
    await page
      .getByRole('row', { name: /dead\.two/ })
      .getByRole('button', { name: 'Delete…' })
      .click()
    await page.getByRole('button', { name: 'Delete the job' }).click()
    await until('it is gone', async () => (await server.get(`/ojs/v1/jobs/${deleted}`)).status === 404)
    await page.getByRole('row', { name: /dead\.two/ }).waitFor({ state: 'detached' })
    expectNoFaults(watched)
  })

  test('fires a cron entry, turns it off, and lays down limits for a type', async () => {
    await server.post('/ojs/v1/cron', { name: 'paged', expression: '0 0 1 1 *', type: 'paged.job', args: [] })
    const watched = await openPage(browser, `${server.url}/cron`, { mayFail: /404/ })
    const { page } = watched
    const entry = page.getByRole('row', { name: /paged/ })
    await entry.getByRole('button', { name: 'Fire now' }).click()
    await until('it fired', async () => (await server.get('/ojs/v1/jobs?type=paged.job')).body.jobs.length === 1)
    await entry.getByRole('button', { name: 'Turn off' }).click()
    await entry.getByText('off', { exact: true }).waitFor()
    await entry.getByRole('link', { name: 'paged.job' }).click()
    await page.getByRole('textbox').fill('{"timeout": 77}')
    await page.getByRole('button', { name: 'Save' }).click()
    await until('it is stored', async () => (await server.get('/api/v1/job-types/paged.job')).body['timeout'] === 77)
    await page.goto(`${server.url}/types`)
    await page.getByRole('row', { name: /paged\.job.*timeout 77/ }).waitFor()
    expectNoFaults(watched)
  })

  test('shows what was cut by which limit, with the lengths of attempts beside the limit', async () => {
    const limits = { timeout_ms: 50, grace_period: 0, retry: { max_attempts: 1 } }
    for (let n = 0; n < 2; n += 1) {
      const id = await made({ queue: 'cut', type: 'cut.job', ...limits })
      await taken('cut')
      await until('it was cut', async () => (await server.job(id)).state === 'discarded')
    }
    const fine = await made({ queue: 'cut', type: 'cut.job' })
    await taken('cut')
    await server.post('/ojs/v1/workers/ack', { job_id: fine })
    const watched = await openPage(browser, `${server.url}/timeouts?type=cut.job`)
    const { page } = watched
    await page.getByRole('row', { name: /^cut\.job 2 67 %/ }).waitFor()
    expect(Number((await tiles(page, 'Timeouts by kind'))['execution'])).toBeGreaterThanOrEqual(2)
    const durations = page.getByRole('region', { name: 'Durations of cut.job' })
    await durations.getByRole('img', { name: '3 attempts, limit 50 ms' }).waitFor()
    await durations.locator('line.limitline').waitFor({ state: 'attached' })
    await durations.getByText(/The line is the timeout that cut the last one: 50 ms/).waitFor()
    await durations.getByRole('slider').fill('60')
    await durations.getByText('what more time would have saved is unknown').waitFor()
    await durations.getByRole('link', { name: 'Jobs that were cut' }).click()
    await page.getByRole('status').getByText('2 found').waitFor()
    expectNoFaults(watched)
  })

  test('leads to every other page of the board by a link that works', async () => {
    const watched = await openPage(browser, `${server.url}/`)
    const { page } = watched
    const names = await page.getByRole('navigation').getByRole('link').allInnerTexts()
    expect(names.length).toBeGreaterThanOrEqual(12)
    for (const name of names) {
      await page.getByRole('navigation').getByRole('link', { name, exact: true }).click()
      await page.getByRole('heading', { name, exact: true, level: 1 }).waitFor()
      await settled(page)
    }
    expectNoFaults(watched)
  })
})
