/** A real browser, where one is installed: Chromium or Chrome, driven by playwright-core, which brings none. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium, type Browser, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { browserPath } from '../../scripts/browser.mjs'

/** For this browser every name that ends with `.test` is of this machine. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: browserPath() ?? '',
    // The pages are our own; the sandbox needs rights that a container does not have.
    args: ['--no-sandbox', '--host-resolver-rules=MAP *.test 127.0.0.1'],
  })
}

/** A page on any port and name but the server's, which may do what pages may. */
export async function pageElsewhere(browser: Browser, name: string): Promise<Page> {
  const site = createServer((_, response) =>
    response.writeHead(200, { 'Content-Type': 'text/html' }).end('<body></body>'),
  )
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    site.close()
    site.closeAllConnections()
  })
  return pageAt(browser, `http://${name}:${String((site.address() as AddressInfo).port)}/`)
}

export async function pageAt(browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage()
  onTestFinished(() => page.close())
  await page.goto(url)
  return page
}
