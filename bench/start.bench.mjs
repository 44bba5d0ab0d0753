// npm run bench -- start [--node PATH] [--full]
//
// How long does a newcomer wait? A clone of HEAD in another folder, with an empty HOME and so without a cache of npm, from
// `npm start` to the first job that is answered with 201; and what that put into node_modules. `--node` takes another Node.
// `--full` then installs what tests and lint need too, and prints its size beside.
//
// Compiling better-sqlite3 (Node 20) takes most of the time where its ready-made binary cannot be downloaded. A run with a
// Node is kept in bench/results/start-node<major>.md.
import { execFileSync, spawn } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { endsWithUs, HERE } from './lib/processes.mjs'
import { atMost, machine, row, save } from './lib/report.mjs'

const question =
  'A clone with an empty HOME and no cache: from `npm start` to the answer to the first job. The size is that of node_modules.'

export async function run(args) {
  const place = args.indexOf('--node')
  const node = place < 0 ? process.execPath : args[place + 1]
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  const taken = machine()
  const began = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'curfew-start-'))
  try {
    const [clone, home] = [join(folder, 'clone'), join(folder, 'home')]
    mkdirSync(home)
    execFileSync('git', ['clone', '--quiet', '--no-hardlinks', HERE, clone])
    const env = { PATH: [dirname(node), process.env.PATH].join(delimiter), HOME: home, ...machineSettings() }
    const { installedS, answeredS } = await started(clone, env)
    const rows = [
      row('npm start to the first answered job', 's', [answeredS], atMost(30)),
      row('of these, installing dependencies', 's', [installedS]),
      row('installed for npm start', 'MB', [megabytes(join(clone, 'node_modules'))]),
    ]
    if (args.includes('--full')) {
      execFileSync(node, ['scripts/setup.mjs'], { cwd: clone, env, stdio: 'ignore' })
      rows.push(row('installed for everything', 'MB', [megabytes(join(clone, 'node_modules'))]))
    }
    const scenarios = [{ name: 'Clean clone', question, rows }]
    const title = `Curfew from a clean clone, Node ${version}`
    const seconds = (performance.now() - began) / 1000
    console.log(
      save(`start-node${version.slice(1).split('.')[0]}`, {
        title,
        machine: { ...taken, node: version },
        taken: seconds,
        scenarios,
      }),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function started(clone, env) {
  const began = performance.now()
  const child = endsWithUs(
    spawn('npm', ['start', '--', '--port', '0'], { cwd: clone, env, stdio: ['ignore', 'pipe', 'pipe'] }),
  )
  let said = ''
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const url = await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        said += chunk
        const [, address] = /^listening on (\S+)\n/m.exec(said) ?? []
        if (address !== undefined) resolve(address)
      })
    void exited.then(() => {
      reject(new Error(`npm start ended:\n${said}`))
    })
  })
  const { status } = await fetch(`${url}/ojs/v1/jobs`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ type: 'email.send', args: ['ada@example.com'] }),
  })
  const answeredS = (performance.now() - began) / 1000
  child.kill('SIGTERM')
  await exited
  if (status !== 201) throw new Error(`the first job was answered with ${status}`)
  return { installedS: Number(/Dependencies installed in (\d+) s/.exec(said)?.[1]), answeredS }
}

/** What the machine says to every user of npm, such as the certificates of its proxy; another Node looks for it elsewhere. */
function machineSettings() {
  const names = ['npm_config_globalconfig', 'NODE_EXTRA_CA_CERTS', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])))
}

/** Links are not followed: a package of the workspace is no part of the installation. */
function megabytes(folder) {
  let bytes = 0
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) bytes += megabytes(path) * 1e6
    else if (entry.isFile()) bytes += lstatSync(path).size
  }
  return bytes / 1e6
}
