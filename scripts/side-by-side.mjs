// Runs tools of node_modules at the same time. The output of each part is printed when the part ends.
import { spawn } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { root } from './setup.mjs'

/** Core alone, without the types of Node; the board, with those of browsers; then everything, tests included. The same as `npm run typecheck`. */
export const TYPES = [
  ['typescript/bin/tsc', '-p', 'packages/core', '--noEmit', '--composite', 'false', '--incremental', 'false'],
  ['typescript/bin/tsc', '-p', 'packages/board'],
  ['typescript/bin/tsc', '-p', 'tsconfig.tests.json'],
]

/** Each part is a name and a list of tools with their arguments. Returns the names of the parts that failed. */
export async function sideBySide(...parts) {
  console.log(`\n— ${parts.map(([name]) => name).join(', ')}: side by side`)
  const failed = []
  await Promise.all(
    parts.map(async ([name, tools]) => {
      const began = performance.now()
      let [code, said] = [0, '']
      for (const [script, ...args] of tools) {
        const ended = await quietTool(script, ...args)
        code ||= ended.code
        said += ended.said
      }
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      process.stdout.write(said)
      console.log(`  ${name}: ${code === 0 ? 'ok' : 'FAILED'}, ${seconds} s`)
      if (code !== 0) failed.push(name)
    }),
  )
  return failed
}

function quietTool(script, ...args) {
  const path = join(root, 'node_modules', ...script.split('/'))
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [path, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
    child.on('error', (error) => resolve({ code: 1, said: `${said}${error.message}\n` }))
    child.on('close', (code) => resolve({ code: code ?? 1, said }))
  })
}
