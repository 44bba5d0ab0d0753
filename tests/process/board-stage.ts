/** What the tests of the board need: a browser that reports every fault of a page, and workers that do as they are told. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { Client, defineJob, Worker } from '@curfew/sdk'
import type { ServerProcess } from './server-process.ts'

export interface Watched {
  readonly page: Page
  /** Errors of scripts, violations of the policy, requests to elsewhere. Empty at the end of every test. */
  readonly faults: string[]
}

/** A page in a context of its own: other tests share neither its cookies nor its storage. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions & { readonly mayFail?: RegExp } = {},
): Promise<Watched> {
  const { mayFail, ...rest } = options
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...rest })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && mayFail?.test(message.text()) !== true) faults.push(message.text())
  })
  const origin = new URL(url).origin
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) faults.push(`asked ${request.url()}`)
  })
  page.on('dialog', (dialog) => {
    faults.push(`a script opened a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(url)
  await page.locator('h1').first().waitFor()
  return { page, faults }
}

export const sprint = defineJob('test.sprint')
/** Runs until it is let go, and stops when it is asked to. */
export const patient = defineJob('test.patient')
/** Runs until it is let go, whatever it is asked. */
export const deaf = defineJob('test.deaf')

export interface Crew {
  readonly client: Client
  readonly worker: Worker
  /** Lets every handler that waits return. */
  readonly letGo: () => void
}

/** A real worker of the SDK and a client, stopped with the test. */
export async function openCrew(server: ServerProcess, queues: readonly string[] = ['default']): Promise<Crew> {
  const client = new Client({ url: server.url })
  const worker = new Worker({ url: server.url, queues: [...queues], concurrency: 5 })
  let release = (): void => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  worker.handle(sprint, () => Promise.resolve({ fast: true }))
  worker.handle(deaf, () => released)
  worker.handle(patient, (ctx) => Promise.race([released, aborted(ctx.signal)]))
  await worker.start()
  onTestFinished(async () => {
    release()
    await worker.stop()
    await client.close()
  })
  return { client, worker, letGo: release }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error)
    })
  })
}

/** Every page of the board, with something on it where ids are given. */
export const pagesOf = (ids: {
  readonly job: string
  readonly worker: string
  readonly workflow: string
  readonly run: string
}): string[] => [
  ...[
    '/',
    '/jobs',
    '/timeouts',
    '/queues',
    '/queues/default',
    '/workers',
    '/dead-letters',
    '/workflows',
    '/runs',
    '/cron',
  ],
  ...['/types', '/types/test.deaf', '/incident', '/settings', '/sign-in'],
  `/jobs/${ids.job}`,
  `/workers/${encodeURIComponent(ids.worker)}`,
  `/workflows/${ids.workflow}`,
  `/runs/${ids.run}`,
]

export const seen = (page: Page, text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor()

export function expectNoFaults(...pages: readonly Watched[]): void {
  for (const { faults } of pages) expect(faults).toEqual([])
}

/** Everything a page asks for first has come. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor()
  // Not by a script in the page: its policy forbids eval, by which playwright would run it.
  await page
    .getByText(/Loading…|Reading the log/)
    .first()
    .waitFor({ state: 'hidden' })
}
