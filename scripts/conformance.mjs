// npm run conformance: our cases, and the official ones where they are at hand, against a server on each store.
//
//   npm run conformance                                 SQLite, and PostgreSQL where there is one
//   npm run conformance -- --store sqlite               that store alone; also postgres
//   npm run conformance -- --official path/to/suites    a folder with the official cases
//   npm run conformance -- --only TO-TOT --verbose      what else tests/conformance/run.mjs takes
//
// Cases mostly wait, so they wait together: the stores side by side, and on each all cases side by side. The last line is
// always `N passed, N failed`. docs/conformance.md tells more.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { startServer } from '../bench/lib/processes.mjs'
import { main as play, UsageError } from '../tests/conformance/run.mjs'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

const HELP = `npm run conformance -- [--store sqlite|postgres|both] [--official DIR] [options of tests/conformance/run.mjs]

  --store      where the server keeps its data (both, PostgreSQL only where it is found)
  --official   a folder with the official cases (or the variable OJS_CONFORMANCE_SUITES); none: only our own
  --json       the beginning of the names of the files in which everything is written down
`

/** At a time, on each store. Most of them sleep. */
const CONCURRENCY = '24'

const { store, official, json, rest } = readArgs(process.argv.slice(2))
await setupOrExit()
if ((await build()) !== 0) process.exit(2)

const houses = []
try {
  if (store !== 'postgres') houses.push(await onSqlite())
  if (store !== 'sqlite') houses.push(await onPostgres())
  const ends = await Promise.all(houses.filter((house) => house !== null).map(runOn))
  process.exitCode = tell(ends)
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(error.message)
  process.exitCode = 2
} finally {
  await Promise.all(houses.map((house) => house?.stop()))
}

// ---- Stores ----

async function onSqlite() {
  const server = await startServer({ flags: ['--conformance'] })
  return { name: 'SQLite', url: `http://127.0.0.1:${server.port}`, stop: () => server.stop() }
}

/** Null where there is no PostgreSQL and none is required. */
async function onPostgres() {
  const { postgresOfTheTests } = await import('../bench/lib/postgres.mjs')
  const { testServer, NoPostgres } = await postgresOfTheTests()
  let database
  try {
    database = await testServer()
  } catch (error) {
    if (!(error instanceof NoPostgres) || store === 'postgres') throw new UsageError(error.message)
    console.log(`${error.message} Going on without.`)
    return null
  }
  const schema = `conformance_${process.pid}`
  const server = await startServer({ flags: ['--conformance'], database: `${database.url}?schema=${schema}` })
  const stop = async () => {
    await server.stop()
    if (database.cluster === null) await dropSchema(database.url, schema)
    else await database.cluster.remove()
  }
  return { name: 'PostgreSQL', url: `http://127.0.0.1:${server.port}`, stop }
}

async function dropSchema(url, schema) {
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await client.end()
}

// ---- Runs ----

async function runOn({ name, url }) {
  const reportIn = (whose) => (json === undefined ? [] : ['--json', `${json}.${name.toLowerCase()}.${whose}.json`])
  const ours = ['--with', 'x_curfew']
  const folders = [{ title: 'our cases', args: [...ours, ...reportIn('ours')] }]
  if (official !== null)
    folders.push({ title: 'official cases', args: ['--suites', official, ...reportIn('official')] })
  const runs = folders.map(async ({ title, args }) => {
    let said = ''
    const out = { log: (text) => (said += `${text}\n`) }
    try {
      await play(['--url', url, '--concurrency', CONCURRENCY, ...args, ...rest], out)
      return { store: name, title, said, line: said.trimEnd().split('\n').at(-1) }
    } catch (error) {
      if (!(error instanceof UsageError) || !/^no case fits/.test(error.message) || folders.length === 1) throw error
      return null // --only chose cases of the other folder
    }
  })
  return (await Promise.all(runs)).filter((run) => run !== null)
}

function tell(ends) {
  const runs = ends.flat()
  for (const { store: on, title, said } of runs) console.log(`\n— ${on}, ${title}\n${said.trimEnd()}`)
  if (official === null) console.log('\nThe official cases were not run: --official DIR names a folder with them.')
  console.log('')
  const total = { passed: 0, failed: 0 }
  for (const { store: on, title, line } of runs) {
    console.log(`${`${on}, ${title}`.padEnd(28)} ${line}`)
    for (const word of Object.keys(total)) total[word] += Number(new RegExp(`(\\d+) ${word}`).exec(line)?.[1] ?? 0)
  }
  console.log(`${total.passed} passed, ${total.failed} failed`)
  return total.failed > 0 || total.passed === 0 ? 1 : 0
}

// ---- Options ----

function readArgs(args) {
  const left = [...args]
  const take = (name) => {
    const at = left.findIndex((arg) => arg === name || arg.startsWith(`${name}=`))
    if (at < 0) return undefined
    const [arg] = left.splice(at, 1)
    return arg.includes('=') ? arg.slice(name.length + 1) : left.splice(at, 1)[0]
  }
  if (left.includes('--help')) {
    console.log(HELP)
    process.exit(0)
  }
  const chosen = take('--store') ?? 'both'
  if (!['sqlite', 'postgres', 'both'].includes(chosen)) {
    console.error(`--store ${chosen}: sqlite, postgres or both`)
    process.exit(2)
  }
  return { store: chosen, official: officialCases(take('--official')), json: take('--json'), rest: left }
}

/** Where they are: as told, else beside the repository. */
function officialCases(told = process.env.OJS_CONFORMANCE_SUITES) {
  const folder = told === undefined || told === '' ? join(root, '..', 'shared', 'conformance') : resolve(told)
  const inside = join(folder, 'suites')
  if (existsSync(inside)) return inside
  if (existsSync(folder)) return folder
  if (told === undefined || told === '') return null
  console.error(`--official ${told}: there is no such folder`)
  process.exit(2)
}
