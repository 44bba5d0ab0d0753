// The browser of the tests: a Chromium or Chrome that is installed, or on Debian as root one that is installed now.
// Only tests need it, so `npm start` never comes here.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'

const PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

/** Null where there is none. `CHROME_BIN` names one that lies elsewhere. */
export function browserPath() {
  const named = process.env.CHROME_BIN
  return [...(named ? [named] : []), ...PLACES].find(isExecutable) ?? null
}

/** Installs one where that is possible, and says so where it is not. */
export function setupBrowser() {
  if (browserPath() !== null) return
  if (existsSync('/etc/debian_version') && process.getuid?.() === 0) {
    console.log('Installing Chromium with apt-get for the tests in a browser: about a minute. This happens once.')
    apt('update')
    apt('install', '-y', '--no-install-recommends', 'chromium')
  }
  if (browserPath() === null)
    console.log(
      'No Chromium or Chrome was found: the tests in a browser (tests/process/browser.test.ts) are skipped. ' +
        'Install one (Debian: apt-get install chromium), or name it with CHROME_BIN.',
    )
}

function apt(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', ['-q', ...args], { env, stdio: 'ignore' })
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
