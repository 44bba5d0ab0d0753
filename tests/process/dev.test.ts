/** `curfew dev` as a process: a worker file is run, and run anew when its code changes. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runCurfew, temporaryDirectory, until, within, type Running } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A folder in which a worker finds the SDK. */
function workshop(): string {
  const folder = temporaryDirectory()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  mkdirSync(join(folder, 'lib'))
  return folder
}

const said = (dev: Running, pattern: RegExp): Promise<RegExpExecArray> =>
  until(String(pattern), () => pattern.exec(dev.output.stdout))

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

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
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
  const dev = runCurfew(['dev', join(folder, 'worker.mjs'), '--port', '0'])
  const url = (await said(dev, /^(http:\/\/127\.0\.0\.1:\d+) {2}server and board/m))[1] ?? ''
  expect((await fetch(`${url}/`)).headers.get('content-type')).toContain('text/html')
  expect(await resultOf(url)).toBe('one')
  greeting("'two'")
  await said(dev, /greeting\.mjs changed\n(.*\n)*curfew dev: worker started/)
  expect(await resultOf(url)).toBe('two')
  // It cannot be loaded: the process ends at once, and stays ended.
  greeting('(')
  await said(dev, /the worker ended by itself \(code 1\); it starts again when its code changes\n/)
  expect(dev.output.stdout.match(/worker started/g)).toHaveLength(3)
  greeting("'three'")
  expect(await resultOf(url)).toBe('three')
  expect(dev.output.stdout.match(/worker started/g)).toHaveLength(4)
  const pid = Number(/(?:.*\n)*.*worker started, pid (\d+)/.exec(dev.output.stdout)?.[1])
  expect(isAlive(pid)).toBe(true)
  dev.signal('SIGINT')
  expect(await within('curfew dev ends', dev.exited)).toEqual({ code: 0, signal: null })
  expect(isAlive(pid)).toBe(false)
  expect(dev.output.stdout).not.toContain('is killed')
})

test('a worker that does not end in time is killed, and new code starts', async () => {
  const folder = workshop()
  const file = join(folder, 'worker.mjs')
  const stubborn = (name: string): void => {
    writeFileSync(file, `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('I am ${name}')\n`)
  }
  stubborn('first')
  const dev = runCurfew(['dev', file, '--port', '0', '--drain', '50ms'])
  await said(dev, /I am first/)
  stubborn('second')
  await said(dev, /did not end within 50 ms and is killed\n(.*\n)*I am second/)
  dev.signal('SIGTERM')
  expect(await within('curfew dev ends', dev.exited)).toEqual({ code: 0, signal: null })
})
