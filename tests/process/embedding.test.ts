/** The package as an application meets it: installed, built, imported by its name. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

const PROGRAM = `
import { openServer } from 'curfew'
const server = await openServer({ data: ':memory:' })
const { address } = await server.listen()
const job = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"type":"a","args":[]}' }
const { status } = await fetch(address + '/ojs/v1/jobs', job)
await server.close()
process.stdout.write(String(status))
`

test('a program that embeds the server runs it, says only what it says itself, and ends when it has closed it', async () => {
  const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], { cwd: root })
  const [stdout, stderr] = await Promise.all([text(program.stdout), text(program.stderr)])
  expect({ stdout, stderr }).toEqual({ stdout: '201', stderr: '' })
})
