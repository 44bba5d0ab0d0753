/** What is published: whole, well-formed, and nothing in it or behind it that an application has no use for. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { beforeAll, describe, expect, test } from 'vitest'
import { temporaryDirectory } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const PACKAGES = ['core', 'sdk', 'server'] as const
type Package = (typeof PACKAGES)[number]

interface Packed {
  readonly name: string
  readonly filename: string
  readonly files: readonly { readonly path: string }[]
}

const shelf = temporaryDirectory()
const packed = new Map<Package, Packed>()

beforeAll(() => {
  const which = PACKAGES.map((name) => `--workspace=packages/${name}`)
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', shelf, ...which]
  const said = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
  const made = JSON.parse(said) as Packed[]
  for (const name of PACKAGES) {
    const own = made.find((each) => each.name === manifest(name)['name'])
    if (own !== undefined) packed.set(name, own)
  }
})

const tarball = (name: Package): string => join(shelf, packed.get(name)?.filename ?? '')
const manifest = (name: Package): Record<string, unknown> =>
  JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8')) as Record<string, unknown>

describe.each(PACKAGES)('the package %s', (name) => {
  test('is well-formed (publint)', async () => {
    const bytes = readFileSync(tarball(name))
    const pack = { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) }
    const { messages } = await publint({ strict: true, pack })
    expect(messages.map((message) => formatMessage(message, manifest(name)))).toEqual([])
  })

  test('has types that fit what is imported (are the types wrong?)', () => {
    const attw = join(root, 'node_modules', '@arethetypeswrong', 'cli', 'dist', 'index.js')
    const run = spawnSync(process.execPath, [attw, tarball(name), '--profile', 'esm-only'], { encoding: 'utf8' })
    expect(run.stdout + run.stderr).toContain('ESM')
    expect([run.status, run.status === 0 ? '' : run.stdout]).toEqual([0, ''])
  })

  test('holds what was built from the sources of today, and no test', () => {
    const paths = packed.get(name)?.files.map(({ path }) => path) ?? []
    expect(paths).toEqual(expect.arrayContaining(['package.json', 'dist/index.js', 'dist/index.d.ts']))
    expect(paths.filter((path) => /\.(test|test-d|suite)\./.test(path) || path.endsWith('.tsbuildinfo'))).toEqual([])
    const sources = paths.filter((path) => /^dist\/(?!board\/).*\.js$/.test(path)).map((path) => path.slice(5, -3))
    expect(sources.filter((path) => !existsSync(join(root, 'packages', name, 'src', `${path}.ts`)))).toEqual([])
  })

  test('says what it is: a README whose links lead somewhere, the licence, and keywords', () => {
    const paths = packed.get(name)?.files.map(({ path }) => path) ?? []
    expect(paths).toContain('README.md')
    const readme = readFileSync(join(root, 'packages', name, 'README.md'), 'utf8')
    const links = [...readme.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
    expect(links.filter((target) => !target.startsWith('https://') && !paths.includes(target))).toEqual([])
    expect(paths).toContain('LICENSE')
    expect(readFileSync(join(root, 'packages', name, 'LICENSE'), 'utf8')).toBe(
      readFileSync(join(root, 'LICENSE'), 'utf8'),
    )
    const { license, keywords } = manifest(name)
    expect(license).toBe('Apache-2.0')
    expect((keywords as string[]).length).toBeGreaterThan(3)
  })

  test('brings the source with its source maps, which name files that are not in the package', () => {
    const unpacked = temporaryDirectory()
    execFileSync('tar', ['-xzf', tarball(name), '-C', unpacked, '--strip-components=1'])
    const maps = (packed.get(name)?.files ?? []).filter(({ path }) => path.endsWith('.js.map'))
    expect(maps.length).toBeGreaterThan(10)
    const incomplete = maps.filter(({ path }) => {
      const text = readFileSync(join(unpacked, path), 'utf8')
      const { sources, sourcesContent } = JSON.parse(text) as { sources: string[]; sourcesContent?: string[] }
      return sourcesContent?.length !== sources.length
    })
    expect(incomplete).toEqual([])
  })
})

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly hasInstallScript?: boolean
  readonly link?: boolean
  readonly resolved?: string
}

/** Every package an installation of this one brings along, by the lockfile. */
function closureOf(name: string): Map<string, Locked> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  const found = new Map<string, Locked>()
  const visit = (path: string): void => {
    const entry = packages[path]
    if (entry === undefined) throw new Error(`package-lock.json knows nothing of ${path}`)
    const target = entry.link === true ? (packages[entry.resolved ?? ''] ?? entry) : entry
    if (found.has(path)) return
    found.set(path, target)
    for (const needed of Object.keys({ ...target.dependencies, ...target.optionalDependencies })) {
      const nested = `${path}/node_modules/${needed}`
      visit(nested in packages ? nested : `node_modules/${needed}`)
    }
  }
  visit(`node_modules/${name}`)
  return found
}

/**
 * An empty project in which the tarballs are installed, with the dependencies that the lockfile names and no others. Our packages
 * are unpacked, so they find only what they declare; the others are links.
 */
function projectWith(...names: string[]): string {
  const home = temporaryDirectory()
  for (const path of new Set(names.flatMap((name) => [...closureOf(name).keys()]))) {
    const own = PACKAGES.find((folder) => path === `node_modules/${String(manifest(folder)['name'])}`)
    if (own === undefined && !existsSync(join(root, path))) continue // optional, and not for this machine
    if (own === undefined && path.lastIndexOf('node_modules/') > 0) continue // below another, whose link leads to it
    const target = join(home, path)
    mkdirSync(own === undefined ? dirname(target) : target, { recursive: true })
    if (own === undefined) symlinkSync(join(root, path), target)
    else execFileSync('tar', ['-xzf', tarball(own), '-C', target, '--strip-components=1'])
  }
  return home
}

function runIn(home: string, code: string): string {
  return execFileSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd: home,
    encoding: 'utf8',
    stdio: 'pipe',
  })
}

describe('a project that installs all tarballs', () => {
  test('can import every name that they export, also the test kit, which runs the server', () => {
    const home = projectWith('curfew', '@curfew/sdk', '@opentelemetry/api')
    const exported = PACKAGES.flatMap((folder) => {
      const { name, exports } = manifest(folder) as { name: string; exports: Record<string, unknown> }
      return Object.keys(exports).map((path) => path.replace('.', name))
    })
    expect(exported).toContain('@curfew/sdk/testing')
    const code = `
      for (const name of ${JSON.stringify(exported)})
        if (Object.keys(await import(name)).length === 0) throw new Error(name + ' exports nothing')
      const { openTestKit } = await import('@curfew/sdk/testing')
      const { defineJob } = await import('@curfew/sdk')
      const kit = await openTestKit()
      const slow = defineJob('slow.job', { limits: { timeout: '1h' } })
      const worker = kit.worker()
      worker.handle(slow, (ctx) => kit.sleep('2h', ctx.signal))
      await worker.start()
      const job = await kit.client.enqueue(slow, [])
      await kit.advance('62m')
      await kit.expectTimedOut(job, 'execution')
      await kit.close()
      console.log('fine')`
    expect(runIn(home, code)).toBe('fine\n')
  })
})

describe('a project that installs the server', () => {
  test('can run its command, import all of its exports, and nothing beside them', () => {
    const home = projectWith('curfew')
    const { version, bin } = manifest('server') as { version: string; bin: { curfew: string } }
    const command = join(home, 'node_modules', 'curfew', bin.curfew)
    expect(execFileSync(process.execPath, [command, '--version'], { cwd: home, encoding: 'utf8' })).toContain(version)
    const serve = `import { openServer } from 'curfew'
      const server = await openServer({ data: ':memory:' })
      const { address } = await server.listen({ port: 0 })
      const { status } = await fetch(address + '/ojs/v1/health')
      await server.close()
      console.log(status)`
    expect(runIn(home, serve)).toBe('200\n')
    expect(runIn(home, `import * as core from '@curfew/core'; console.log(typeof core.parseDuration)`)).toBe(
      'function\n',
    )
    for (const inside of ['curfew/dist/server.js', '@curfew/core/dist/index.js'])
      expect(() => runIn(home, `await import('${inside}')`)).toThrow('ERR_PACKAGE_PATH_NOT_EXPORTED')
  })
})

describe('a server without SQLite', () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const hasBuiltIn = major >= 24 || (major === 22 && minor >= 16)

  test.skipIf(hasBuiltIn)('says what is missing and what helps, and needs none for PostgreSQL', () => {
    const home = projectWith('curfew')
    rmSync(join(home, 'node_modules', 'better-sqlite3')) // as npm does where it cannot be compiled
    const serve = (...flags: string[]): string => {
      const main = join(home, 'node_modules', 'curfew', 'dist', 'cli', 'main.js')
      const env = { PATH: process.env['PATH'] }
      const { status, stderr } = spawnSync(process.execPath, [main, 'serve', ...flags], {
        cwd: home,
        env,
        encoding: 'utf8',
      })
      expect(status).toBe(1)
      return stderr
    }
    expect(serve('--data', join(home, 'data'))).toMatch(
      /^curfew: SQLite is missing: Node .*Use Node 22\.16, 24 or newer; or run npm install better-sqlite3/,
    )
    expect(serve('--database', 'postgresql://127.0.0.1:1/none')).toMatch(/does not accept connections/)
  })
})

describe('an application that installs the SDK', () => {
  test('gets these packages and no others: no database driver, nothing to compile', () => {
    const closure = closureOf('@curfew/sdk')
    expect([...closure.keys()].map((path) => path.replace('node_modules/', '')).sort()).toEqual([
      '@curfew/core',
      '@curfew/sdk',
      '@standard-schema/spec',
      'eventsource-parser',
      'jiti',
    ])
    for (const [path, { hasInstallScript }] of closure) expect([path, hasInstallScript]).toEqual([path, undefined])
  })

  test('can use it with nothing else installed, and traces only where OpenTelemetry is', () => {
    const home = projectWith('@curfew/sdk')
    const run = (code: string): string => runIn(home, code)
    expect(run(`import * as sdk from '@curfew/sdk'; console.log(typeof sdk.Client, typeof sdk.defineJob)`)).toBe(
      'function function\n',
    )
    expect(() => run(`await import('@curfew/sdk/telemetry')`)).toThrow(/@opentelemetry\/api/)
    mkdirSync(join(home, 'node_modules', '@opentelemetry'))
    symlinkSync(join(root, 'node_modules/@opentelemetry/api'), join(home, 'node_modules/@opentelemetry/api'))
    expect(run(`import * as t from '@curfew/sdk/telemetry'; console.log(Object.keys(t).sort().join())`)).toBe(
      'attemptTracing,enqueueTracing\n',
    )
  })
})
