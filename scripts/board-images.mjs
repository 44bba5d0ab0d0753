// Draws the pictures of the board in docs/images: `npm run board:images`. A real server, real workers and a real browser;
// nothing is drawn that the board would not show.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, defineJob, Worker } from '@curfew/sdk'
import { openServer } from 'curfew'
import { chromium } from 'playwright-core'
import { browserPath } from './browser.mjs'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

await setupOrExit()
if ((await build()) !== 0) process.exit(1)
const out = join(root, 'docs', 'images')
mkdirSync(out, { recursive: true })
const data = mkdtempSync(join(tmpdir(), 'curfew-images-'))
const server = await openServer({ data, log: { info() {}, warn() {}, error: console.error, debug() {} } })
const { address: url } = await server.listen()

const send = defineJob('email.send')
const report = defineJob('report.build')
const encode = defineJob('video.encode')
const client = new Client({ url })
const crew = ['default', 'media'].map((queue) => new Worker({ url, queues: [queue, 'mail'], concurrency: 4 }))
const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const work = (ms, { signal }) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
for (const worker of crew) {
  worker.handle(send, () => ({ sent: true }))
  worker.handle(report, (ctx, [ms]) => work(ms, ctx))
  worker.handle(encode, async (ctx, [ms]) => {
    await ctx.progress(0.4, 'frame 400')
    await rest(ms)
  })
  await worker.start()
}

const limits = { timeout: '3s', gracePeriod: '2s', totalTimeout: '30s', retry: { maxAttempts: 2 } }
const once = { timeout: '2s', gracePeriod: '200ms', totalTimeout: '60s', retry: { maxAttempts: 1 } }
for (let made = 0; made < 40; made += 1) {
  await client.enqueue(send, [`user-${made}@example.com`], { queue: 'mail' })
  // Most of them are done in time; some need longer than they may run.
  await client.enqueue(report, [300 + Math.round(2_300 * (((made * 7) % 40) / 40) ** 2)], once)
}
// Deaf to their deadline: the server ends them after the grace.
for (let made = 0; made < 4; made += 1)
  await client.enqueue(encode, [4_000], { ...limits, timeout: '1s', gracePeriod: '1s', queue: 'media' })
for (let made = 0; made < 12; made += 1)
  await client.enqueue(send, ['late@example.com'], { queue: 'newsletter', enqueueTtl: '90s' })
await rest(12_000)

const browser = await chromium.launch({ executablePath: browserPath() ?? undefined, args: ['--no-sandbox'] })
async function draw(name, path, { look = {}, ready }) {
  const page = await browser.newPage({ viewport: { width: 1100, height: 720 }, ...look })
  await page.goto(url + path)
  await page.locator(ready).first().waitFor()
  await rest(1_500)
  await page.screenshot({ path: join(out, `${name}.png`) })
  await page.close()
}
const watched = () => client.enqueue(encode, [15_000], { ...limits, timeout: '6s', gracePeriod: '4s', queue: 'media' })
await draw('board-now', '/', { ready: '.verdict' })
await draw('board-now-phone', '/', { ready: '.verdict', look: { viewport: { width: 390, height: 800 } } })
const tall = { viewport: { width: 1100, height: 1000 } }
await draw('board-timeouts', '/timeouts?type=report.build', { ready: '.histogram', look: tall })
await draw('board-jobs', '/jobs?type=report.build&since=15m', { ready: 'tbody tr' })
for (const [name, look] of [
  ['board-job', {}],
  ['board-job-dark', { colorScheme: 'dark' }],
]) {
  const { id } = await watched()
  await rest(6_500)
  await draw(name, `/jobs/${id}`, { ready: '.timeline', look })
}
await browser.close()
await Promise.all(crew.map((worker) => worker.stop()))
await client.close()
await server.close()
rmSync(data, { recursive: true, force: true })
