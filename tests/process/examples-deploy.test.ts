/** What the deployment examples say is what the server and the worker do: paths, commands, and how long a stop takes. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { runNode, ServerProcess, temporaryDirectory, until } from './server-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const deploy = join(root, 'examples/deploy')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** A length in the source of the worker, in milliseconds. */
function lengthIn(path: string, name: string): number {
  const found = new RegExp(`^const ${name} = (?:millis\\()?([\\d_]+)`, 'm').exec(
    read(`packages/sdk/src/worker/${path}`),
  )
  return Number(found?.[1]?.replaceAll('_', ''))
}

/** How long a worker with the usual drain takes to leave, at the longest. */
const leavesWithinMs =
  lengthIn('worker-settings.ts', 'DRAIN_MS') +
  lengthIn('leaving.ts', 'CLEAN_UP_MS') +
  lengthIn('leaving.ts', 'LAST_REPORTS_MS') +
  2 * lengthIn('server-link.ts', 'DEREGISTER_MS')
/** As docs/configuration.md says: it is gone within five seconds. */
const SERVER_STOPS_WITHIN_MS = 5_000

test('the lengths that the comments name are those of the worker', () => {
  expect(leavesWithinMs).toBe(36_000)
  const said = 'drain (25 s) + clean-up (2 s) + last reports (5 s) + deregistration (4 s)'
  expect(read('examples/deploy/systemd/curfew-worker.service')).toContain(said)
  expect(read('docs/configuration.md')).toContain('It is gone within five seconds.')
})

describe('systemd', () => {
  test.each([
    ['curfew.service', SERVER_STOPS_WITHIN_MS],
    ['curfew-worker.service', leavesWithinMs],
  ])('%s waits for a stop to end', (name, longestMs) => {
    const unit = read(`examples/deploy/systemd/${name}`)
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) * 1000).toBeGreaterThan(longestMs)
  })

  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

  test.skipIf(!hasSystemd).each(['curfew.service', 'curfew-worker.service'])('%s is a valid unit', (name) => {
    const { stderr, stdout } = spawnSync('systemd-analyze', ['verify', '--man=no', join(deploy, 'systemd', name)], {
      encoding: 'utf8',
    })
    // The machine of the tests need not have /opt/app, nor a bus.
    const findings = `${stdout}${stderr}`.split('\n').filter((line) => line.includes(name))
    expect(findings.filter((line) => !/is not executable|No such file/.test(line))).toEqual([])
  })
})

interface Manifest {
  readonly kind: string
  readonly spec: { readonly template: { readonly spec: PodSpec } }
}
interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly containers: readonly Readonly<Record<string, { readonly httpGet: { readonly path: string } } | undefined>>[]
}

describe('Kubernetes', () => {
  const { parseAllDocuments } = createRequire(join(root, 'packages/server/package.json'))('yaml') as {
    parseAllDocuments: (text: string) => readonly { readonly errors: readonly unknown[]; toJS(): Manifest }[]
  }
  function manifests(name: string): Manifest[] {
    const documents = parseAllDocuments(read(`examples/deploy/kubernetes/${name}`))
    expect(documents.flatMap(({ errors }) => errors)).toEqual([])
    return documents.map((document) => document.toJS())
  }
  const pod = (name: string, kind: string): PodSpec => {
    const found = manifests(name).find((manifest) => manifest.kind === kind)
    if (found === undefined) throw new Error(`no ${kind} in ${name}`)
    return found.spec.template.spec
  }

  test('pods are given the time that a server and a worker take to leave', () => {
    const [server, worker] = [pod('server.yaml', 'StatefulSet'), pod('worker.yaml', 'Deployment')]
    expect(server.terminationGracePeriodSeconds * 1000).toBeGreaterThan(SERVER_STOPS_WITHIN_MS)
    expect(worker.terminationGracePeriodSeconds * 1000).toBeGreaterThan(leavesWithinMs)
  })

  test('probes ask for what a server answers without a token', async () => {
    const server = await ServerProcess.start({ env: { CURFEW_TOKEN: 'a-long-enough-token' } })
    const [container] = pod('server.yaml', 'StatefulSet').containers
    const paths = ['startupProbe', 'readinessProbe', 'livenessProbe'].map((name) => container?.[name]?.httpGet.path)
    expect(paths).toEqual(['/ready', '/ready', '/health'])
    for (const path of new Set(paths)) expect((await server.get(path ?? '')).status).toBe(200)
  })
})

describe('Docker', () => {
  const file = read('examples/deploy/docker/Dockerfile')
  const list = (word: string): string[] =>
    JSON.parse(new RegExp(`^${word} (\\[.*\\])$`, 'm').exec(file)?.[1] ?? '[]') as string[]

  test('its steps are those of npm start', () => {
    const start = read('scripts/start.mjs')
    expect(start).toContain("setupOrExit('run')")
    expect(file).toContain("setupOrExit('run')")
    expect(start).toContain('await build()')
    expect(/npm run build$/m.test(file)).toBe(true)
    expect((JSON.parse(read('package.json')) as { scripts: object }).scripts).toHaveProperty('build')
  })

  test('its command starts a server', async () => {
    const [node, main = '', ...rest] = list('ENTRYPOINT')
    expect([node, existsSync(join(root, main)), rest]).toEqual(['node', true, []])
    const own: Record<string, string> = {
      '/opt/curfew/.curfew': temporaryDirectory(),
      '0.0.0.0': '127.0.0.1',
      8080: '0',
    }
    const child = runNode([join(root, main), ...list('CMD').map((word) => own[word] ?? word)])
    await until('it listens', () => child.output.stdout.includes('listening on'))
    child.signal('SIGTERM')
    expect(await child.exited).toEqual({ code: 0, signal: null })
  })
})
