/** `curfew dev` as a process: a worker file is run, and run anew when its code changes. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { runCurfew, temporaryDirectory, until, within, type Running } from './server-process.ts'

const ADDRESS = /^(http:\/\/127\.0\.0\.1:\d+) {2}server and board/m
const root = fileURLToPath(new URL('../..', import.meta.url))

/** A folder in which a worker finds the SDK. */
function workshop(): string {
  const folder = temporaryDirectory()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  mkdirSync(join(folder, 'lib'))
  return folder
}

const started: Running[] = []
// A test that failed leaves a worker, which is in a group of its own.
afterEach(() => {
  for (const { output } of started.splice(0))
    for (const [, pid] of output.stdout.matchAll(/worker started, pid (\d+)/g)) kill(Number(pid), 'SIGKILL')
})

function dev(...args: string[]): Running {
  const running = runCurfew(['dev', ...args])
  started.push(running)
  return running
}

const said = ({ output }: Running, pattern: RegExp): Promise<RegExpExecArray> =>
  until(String(pattern), () => pattern.exec(output.stdout))

async function resultOf(url: string): Promise<unknown> {
  const call = async (
    path: string,
    body?: object,
  ): Promise<{ job: { id: string; state: string; result?: unknown } }> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const answer = await fetch(`${url}${path}`, { headers: { 'content-type': 'application/json' }, ...init })
    return (await answer.json()) as { job: { id: string; state: string; result?: unknown } }
  }
  const { job } = await call('/ojs/v1/jobs', { type: 'greet', args: [] })
  const done = await until('the job is completed', async () => {
    const found = await call(`/ojs/v1/jobs/${job.id}`)
    return found.job.state === 'completed' ? found.job : null
  })
  return done.result
}

/** Whether there was such a process. */
function kill(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

test('changed code runs the next job, broken code is reported and not started in a loop, Ctrl-C ends both with 0', async () => {
  const folder = workshop()
  const greeting = (word: string): void => {
    writeFileSync(join(folder, 'lib', 'greeting.mjs'), `export const greeting = ${word}\n`)
  }
  greeting("'one'")
  writeFileSync(
    join(folder, 'worker.mjs'),
    `import { Worker } from '@curfew/sdk'
     import { greeting } from './lib/greeting.mjs'
     const worker = new Worker({ url: process.env.CURFEW_URL })
     worker.handle('greet', () => greeting)
     await worker.run()`,
  )
  const running = dev(join(folder, 'worker.mjs'), '--port', '0')
  const url = (await said(running, ADDRESS))[1] ?? ''
  expect((await fetch(`${url}/`)).headers.get('content-type')).toContain('text/html')
  expect(await resultOf(url)).toBe('one')
  greeting("'two'")
  await said(running, /greeting\.mjs changed\n(.*\n)*curfew dev: worker started/)
  expect(await resultOf(url)).toBe('two')
  // It cannot be loaded: the process ends at once, and stays ended.
  greeting('(')
  await said(running, /the worker ended by itself \(code 1\); it starts again when its code changes\n/)
  expect(running.output.stdout.match(/worker started/g)).toHaveLength(3)
  greeting("'three'")
  expect(await resultOf(url)).toBe('three')
  expect(running.output.stdout.match(/worker started/g)).toHaveLength(4)
  const pid = Number(/(?:.*\n)*.*worker started, pid (\d+)/.exec(running.output.stdout)?.[1])
  expect(kill(pid, 0)).toBe(true)
  running.signal('SIGINT')
  expect(await within('curfew dev ends', running.exited)).toEqual({ code: 0, signal: null })
  expect(kill(pid, 0)).toBe(false)
  expect(running.output.stdout).not.toContain('is killed')
})

test('a worker that does not end in time is killed, and new code starts', async () => {
  const folder = workshop()
  const file = join(folder, 'worker.mjs')
  const stubborn = (name: string): void => {
    writeFileSync(file, `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('I am ${name}')\n`)
  }
  stubborn('first')
  const running = dev(file, '--port', '0', '--drain', '50ms')
  await said(running, /I am first/)
  stubborn('second')
  await said(running, /did not end within 50 ms and is killed\n(.*\n)*I am second/)
  running.signal('SIGHUP')
  expect(await within('curfew dev ends', running.exited)).toEqual({ code: 0, signal: null })
})

/** A folder for PATH with an xdg-open of our own; null: with nothing. */
function openers(script: string | null): string {
  const folder = temporaryDirectory()
  if (script !== null) writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return folder
}

test.runIf(process.platform === 'linux')('--open gives the address of the board to the browser, once', async () => {
  const opened = join(temporaryDirectory(), 'opened')
  const running = runCurfew(['dev', '--port', '0', '--open'], { PATH: openers(`echo "$@" >> '${opened}'`) })
  const url = (await said(running, ADDRESS))[1] ?? ''
  const given = (): string | undefined => {
    try {
      return readFileSync(opened, 'utf8') || undefined
    } catch {
      return undefined
    }
  }
  expect(await until('the browser was opened', given)).toBe(`${url}/\n`)
  expect((await fetch((given() ?? '').trim())).headers.get('content-type')).toContain('text/html')
  running.signal('SIGINT')
  expect(await within('curfew dev ends', running.exited)).toEqual({ code: 0, signal: null })
  expect(given()).toBe(`${url}/\n`)
  expect(running.output.stdout).not.toContain('no browser')
})

test.runIf(process.platform === 'linux').each([
  ['there is none', null, 'xdg-open cannot be started'],
  ['none can be opened', 'exit 3', 'xdg-open ended with 3'],
])('--open without a browser says where the board is, and serves: %s', async (_, script, why) => {
  const running = runCurfew(['dev', '--port', '0', '--open'], { PATH: openers(script) })
  const url = (await said(running, ADDRESS))[1] ?? ''
  await said(running, /no browser was opened/)
  expect(running.output.stdout).toContain(`curfew dev: no browser was opened (${why}); the board is at ${url}/\n`)
  expect((await fetch(`${url}/`)).status).toBe(200)
  running.signal('SIGINT')
  expect(await within('curfew dev ends', running.exited)).toEqual({ code: 0, signal: null })
})
