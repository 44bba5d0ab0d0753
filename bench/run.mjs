// npm run bench: lists the scenarios; npm run bench -- <name> [arguments] runs one against a fresh build.
//
// A scenario is a file bench/<name>.bench.mjs that exports `run(args)`, prints its figures and the machine they were
// taken on, and says in its first lines which question it answers.
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from '../scripts/build.mjs'
import { setupOrExit } from '../scripts/setup.mjs'

const folder = dirname(fileURLToPath(import.meta.url))
const ending = '.bench.mjs'
const names = readdirSync(folder).flatMap((file) => (file.endsWith(ending) ? [file.slice(0, -ending.length)] : []))
const [name, ...args] = process.argv.slice(2)

if (name === undefined) {
  console.log(names.length > 0 ? `Scenarios: ${names.join(', ')}` : 'There are no scenarios yet.')
} else if (!names.includes(name)) {
  console.error(`There is no scenario "${name}". Scenarios: ${names.join(', ') || 'none yet'}`)
  process.exitCode = 1
} else {
  await setupOrExit()
  const code = await build()
  if (code !== 0) process.exit(code)
  const { run } = await import(pathToFileURL(join(folder, `${name}${ending}`)).href)
  await run(args)
}
