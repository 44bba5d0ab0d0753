/** `curfew journey …` against a real server: what it prints, and what it leaves a script to know. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { curfew, ServerProcess, temporaryDirectory, type Ended } from './server-process.ts'

const LEAVE = `
apiVersion: v1
kind: Journey
metadata: { name: leave, version: 1.0.0 }
spec:
  execution: { maxDurationSec: 600, onTimeout: { errorCode: TOO_LATE, reason: no answer came } }
  lifecycle: { startMode: async }
  input: { schema: { type: object, required: [days], properties: { days: { type: number } } } }
  start: decide
  states:
    decide: { type: wait, wait: { input: { schema: { type: object, required: [granted] } } }, next: look }
    look: { type: choice, choices: [{ when: { predicate: { lang: jsonata, expr: context.payload.granted } }, next: granted }], default: refused }
    granted: { type: succeed }
    refused: { type: fail, errorCode: REFUSED, reason: not this time }
`
const BLINK = `
apiVersion: v1
kind: Journey
metadata: { name: blink, version: 1.0.0 }
spec:
  execution: { maxDurationSec: 1, onTimeout: { errorCode: LATE, reason: too late } }
  lifecycle: { startMode: async }
  start: nap
  states:
    nap: { type: timer, timer: { duration: PT1H }, next: end }
    end: { type: succeed }
`

async function open(flags: readonly string[] = []): Promise<(...args: string[]) => Promise<Ended>> {
  const server = await ServerProcess.start({ flags })
  const folder = temporaryDirectory()
  const journey = (...args: string[]): Promise<Ended> => curfew(['journey', ...args], { CURFEW_URL: server.url })
  const files = Object.entries({ leave: LEAVE, blink: BLINK }).map(([name, text]) => {
    const file = join(folder, `${name}.yaml`)
    writeFileSync(file, text)
    return file
  })
  expect(await journey('deploy', ...files)).toMatchObject({ code: 0 })
  return journey
}

test('a start that is repeated with the same key or id gives one run', async () => {
  const journey = await open()
  const start = (...more: string[]): Promise<Ended> => journey('start', 'leave', '--input', '{"days": 3}', ...more)
  const [first, again] = [await start('--key', 'leave-7'), await start('--key', 'leave-7')]
  expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/) })
  expect(again).toMatchObject({ code: 0, stdout: first.stdout })
  const id = '01890000-0000-7000-8000-0000000000aa'
  expect(await start('--id', id)).toMatchObject({ code: 0, stdout: `${id}\n` })
  expect(await start('--id', id)).toMatchObject({ code: 0, stdout: `${id}\n` })
  const other = await journey('start', 'leave', '--input', '{"days": 4}', '--key', 'leave-7')
  expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('another start of this journey') })
  expect(await start('--id', id, '--input', '[1]')).toMatchObject({ code: 2 })
})

test('a run from its start to its end', async () => {
  const journey = await open()
  const started = await journey('start', 'leave', '--input', '{"days": 3}')
  expect(started).toMatchObject({ code: 0, stderr: '' })
  const id = started.stdout.trim()
  expect(id).toMatch(/^[0-9a-f-]{36}$/)
  expect((await journey('status', id)).stdout).toMatch(
    new RegExp(
      `^leave 1\\.0\\.0 {2}${id}\nstarted [-\\d: ]+\nRUNNING at decide\n[█░]+ \\d %\n9 min \\d+ s left of 10 min .*\nopen: .* submit ${id} decide`,
    ),
  )
  expect(await journey('result', id)).toMatchObject({ code: 5, stdout: expect.stringContaining('RUNNING at decide') })
  expect(await journey('submit', id, 'decide', '--input', '{}')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^curfew: .*\n {2}\/: .*granted/),
  })
  const file = join(temporaryDirectory(), 'yes.json')
  writeFileSync(file, '{"granted": true}')
  expect(await journey('submit', id, 'decide', '--input', `@${file}`)).toMatchObject({ code: 0 })
  expect(await journey('result', id, '--wait')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('SUCCEEDED at granted'),
  })
  const listed = JSON.parse((await journey('list', '--phase', 'SUCCEEDED', '--json')).stdout) as { journeyId: string }[]
  expect(listed.map(({ journeyId }) => journeyId)).toEqual([id])
})

test('its exit code tells how a run ended', async () => {
  const journey = await open()
  const late = await journey('start', 'blink', '--wait')
  expect(late).toMatchObject({ code: 4, stdout: expect.stringContaining('FAILED at nap (Timeout): LATE: too late') })
  const id = (await journey('start', 'leave', '--input', '{"days": 3}')).stdout.trim()
  expect(await journey('result', id, '--wait', '--timeout', '200ms')).toMatchObject({ code: 5 })
  expect(await journey('cancel', id)).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
  expect((await journey('cancel', id, '--yes')).code).toBe(0)
  expect((await journey('result', id)).code).toBe(3)
})

test('what is wrong is said in one line, with the right code', async () => {
  const journey = await open()
  expect(await journey('start', 'nothing')).toMatchObject({ code: 1, stderr: expect.stringContaining('(not_found)') })
  expect(await journey('start', 'leave', '--input', '{')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--input is not valid JSON'),
  })
  expect(await journey('submit', 'x', 'y')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--input is missing'),
  })
  expect(await journey('strat', 'leave')).toMatchObject({ code: 2, stderr: expect.stringContaining('"journey strat"') })
  expect(await journey('status', 'x', '--url', 'http://127.0.0.1:1')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^curfew: No server answers at http:\/\/127\.0\.0\.1:1 \(.+\)\. Start it, or name another with --url\.\n$/,
    ),
  })
  const help = await journey('--help')
  for (const word of ['simulate', 'start', 'status', 'result', 'submit', 'cancel', 'list', 'Exit codes'])
    expect(help.stdout).toContain(word)
})

test('a token is sent along', async () => {
  const server = await ServerProcess.start({ flags: ['--token', 's3cret'] })
  const list = (...more: string[]): Promise<Ended> => curfew(['journey', 'list', '--url', server.url, ...more])
  expect((await list()).code).toBe(1)
  expect(await list('--token', 's3cret')).toMatchObject({ code: 0, stdout: 'No runs.\n' })
})
