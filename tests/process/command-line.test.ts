/** The command itself: what it prints and where, what it refuses and how it says so, and where settings come from. */
import { symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { curfew, lines, ServerProcess, temporaryDirectory } from './server-process.ts'

describe('what it prints', () => {
  test('stdout has one line, the address; the log is JSON on stderr', async () => {
    const server = await ServerProcess.start()
    await server.enqueue()
    const exit = await server.stop()
    expect(exit.code).toBe(0)
    expect(server.stdout).toBe(`listening on http://127.0.0.1:${String(server.port)}\n`)
    expect(server.port).toBeGreaterThan(0)
    expect(server.log.map(({ msg }) => msg)).toEqual(['serving', 'stopping', 'stopped'])
    for (const line of server.log) expect(line).toMatchObject({ level: 30, time: expect.any(Number) })
  })

  test('--log-level silent says nothing', async () => {
    const server = await ServerProcess.start({ flags: ['--log-level', 'silent'] })
    await server.stop()
    expect(server.stderr).toBe('')
  })

  test('--help lists the commands, that of serve every flag, --version the version', async () => {
    const help = await curfew(['--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    for (const word of ['serve', 'config', 'export', 'import', 'migrate', 'jobs', 'CURFEW_TOKEN'])
      expect(help.stdout).toContain(word)
    const flags = (await curfew(['serve', '--help'])).stdout
    for (const word of ['--port', '--token', '--limits-caps-timeout']) expect(flags).toContain(word)
    expect(flags).toMatch(/--run-cap LENGTH .*CURFEW_LIMITS_RUN_CAP/)
    expect((await curfew(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

describe('what it refuses', () => {
  const refusals: readonly [string, readonly string[], Readonly<Record<string, string>>, RegExp][] = [
    ['a flag it does not know', ['serve', '--prot', '1'], {}, /Unknown flag --prot\. Did you mean --port\?.*--help/],
    ['a command it does not know', ['sevre'], {}, /Unknown command "sevre".*--help/],
    ['a flag without its value', ['serve', '--port'], {}, /--port needs a value/],
    ['a port that is none', ['serve', '--port', '70000'], {}, /--port must be a port/],
    ['a duration that is none', ['serve', '--limits-defaults-timeout', '5 parsecs'], {}, /such as 30s/],
    [
      'a timeout of nothing',
      ['serve', '--limits-defaults-timeout', '0s'],
      {},
      /between 100ms and .*not 0s.*default, 30m/,
    ],
    [
      'a cap of nothing',
      ['serve'],
      { CURFEW_LIMITS_CAPS_TOTAL_TIMEOUT: '0s' },
      /CURFEW_LIMITS_CAPS_TOTAL_TIMEOUT must/,
    ],
    ['a configuration file that is not there', ['serve', '--config', '/nowhere.yaml'], {}, /\/nowhere\.yaml/],
    ['other machines without a token', ['serve', '--host', '0.0.0.0', '--port', '0'], {}, /0\.0\.0\.0.*CURFEW_TOKEN/],
    ['a database of another kind', ['serve'], { CURFEW_DATABASE: 'mysql://u:s3cret@h/d' }, /postgres:\/\/user:pass/],
    ['two places for the data', ['serve', '--data', 'a', '--database', 'postgres://h/d'], {}, /--data and --database/],
    ['a file name where none belongs', ['serve', 'curfew.jsonl'], {}, /Unexpected argument "curfew.jsonl"/],
    ['--force where it has no meaning', ['serve', '--force'], {}, /Unknown flag --force/],
    ['--force where it would be dangerous', ['import', '--force'], {}, /Unknown flag --force/],
    ['an address that is empty', ['serve', '--host', ''], {}, /host is empty.*127\.0\.0\.1/],
    [
      'an empty address with a token',
      ['serve', '--host=', '--data', ':memory:'],
      { CURFEW_TOKEN: 'a' },
      /host is empty/,
    ],
    ['an empty token', ['serve', '--token='], {}, /token is empty/],
    ['a clock to be turned by anybody', ['serve', '--clock', 'manual'], {}, /--clock manual needs --conformance/],
  ]
  test.each(refusals)('%s, with exit code 2 and a message', async (_, args, env, message) => {
    const ended = await curfew(args, env)
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(message)
    expect(lines(ended.stderr)).toHaveLength(1)
  })

  test('an unknown key in the file, naming the key and the file', async () => {
    const file = join(temporaryDirectory(), 'curfew.yaml')
    writeFileSync(file, 'limits:\n  defaults:\n    tiemout: 5s\n')
    const ended = await curfew(['serve', '--config', file])
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('limits.defaults.tiemout')
    expect(ended.stderr).toContain(file)
  })

  test.each([
    ['- port: 9000\n', /must hold keys with their values, such as "port: 9000", and not a list/],
    ['hello\n', /must hold keys with their values, such as "port: 9000", and not "hello"/],
    ['limits: 5\n', /"limits" .*must hold keys of its own, such as limits\.defaults\.timeout, and not 5/],
    ['limits:\n  caps: [1]\n', /"limits\.caps" .*must hold .*limits\.caps\.timeout, and not a list/],
  ])('a file that has not the form of settings (%j), saying what and where', async (text, message) => {
    const file = join(temporaryDirectory(), 'curfew.yaml')
    writeFileSync(file, text)
    const ended = await curfew(['serve', '--config', file])
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(message)
    expect(ended.stderr).toContain(file)
  })

  test('a port that is taken, and says what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const port = String((other.address() as AddressInfo).port)
    const ended = await curfew(['serve', '--port', port, '--data', temporaryDirectory()])
    other.close()
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toMatch(/port is in use.*--port/)
  })

  test('a second server on the same data, also when it comes by a link', async () => {
    const server = await ServerProcess.start()
    const link = join(temporaryDirectory(), 'link')
    symlinkSync(server.data, link)
    for (const data of [server.data, link]) {
      const ended = await curfew(['serve', '--port', '0', '--data', data])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/in use by another Curfew server/)
    }
    await server.enqueue()
    await server.kill()
    // The lock dies with the process.
    await (await ServerProcess.start({ data: server.data })).stop()
  })
})

describe('beside a service named curfew in Kubernetes', () => {
  const env = {
    CURFEW_PORT: 'tcp://10.0.0.1:8080',
    CURFEW_SERVICE_HOST: '10.0.0.1',
    CURFEW_PORT_8080_TCP_ADDR: '10.0.0.1',
    CURFEW_PROT: '1',
  }

  test('it starts, and warns of variables that have no effect', async () => {
    const server = await ServerProcess.start({ env })
    await server.enqueue()
    await server.stop()
    const warned = server.log.filter(({ level }) => level === 40).map(({ msg }) => msg)
    expect(warned).toEqual([
      expect.stringMatching(/^Ignored CURFEW_PORT, .*Kubernetes/),
      expect.stringContaining('Did you mean CURFEW_PORT?'),
    ])
  })

  test('other commands work too, and warn on stderr', async () => {
    const { code, stdout, stderr } = await curfew(['config'], env)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^port: 8080 /m)
    expect(stderr).toMatch(/^curfew: warning: Ignored CURFEW_PORT/)
  })
})

describe('the token', () => {
  test('is asked of every call but health, readiness, metrics and the manifest', async () => {
    const server = await ServerProcess.start({ env: { CURFEW_TOKEN: 's3cret' } })
    for (const path of ['/health', '/healthz', '/ready', '/readyz', '/metrics', '/ojs/manifest', '/ojs/v1/health'])
      expect(await server.get(path)).toMatchObject({ status: 200 })
    for (const headers of [{}, { Authorization: 'Bearer wrong' }, { Authorization: 'Basic s3cret' }])
      expect(await server.get('/ojs/v1/queues', headers)).toMatchObject({
        status: 401,
        body: { error: { code: 'unauthenticated' } },
        headers: { 'www-authenticate': 'Bearer' },
      })
    expect(await server.get('/nowhere')).toMatchObject({ status: 401 })
    expect(await server.get('/ojs/v1/queues', { Authorization: 'Bearer s3cret' })).toMatchObject({ status: 200 })
    await server.stop()
    expect(server.stderr).not.toContain('s3cret')
  })
})

describe('settings', () => {
  test('flags win over the environment, the environment over the file, the file over the default', async () => {
    const file = join(temporaryDirectory(), 'curfew.yaml')
    writeFileSync(
      file,
      'limits:\n  defaults:\n    timeout: 1m\n    grace-period: 1m\n    heartbeat_timeout: 1m\nretention:\n  completed: 1d\n',
    )
    const { code, stdout } = await curfew(['config', '--config', file, '--limits-defaults-timeout', '3m'], {
      CURFEW_LIMITS_DEFAULTS_TIMEOUT: '2m',
      CURFEW_LIMITS_DEFAULTS_GRACE_PERIOD: '2m',
    })
    expect(code).toBe(0)
    expect(stdout).toMatch(/ timeout: 3m +# --limits-defaults-timeout\n/)
    expect(stdout).toMatch(/ grace-period: 2m +# CURFEW_LIMITS_DEFAULTS_GRACE_PERIOD\n/)
    expect(stdout).toMatch(/ heartbeat-timeout: 1m +# .*curfew\.yaml/)
    expect(stdout).toMatch(/ visibility-timeout: 30m +# default\n/)
    expect(stdout).toMatch(/ completed: 1d +# .*curfew\.yaml/)
  })

  test('are what the server goes by', async () => {
    const server = await ServerProcess.start({
      flags: ['--limits-defaults-timeout', '7s'],
      env: { CURFEW_LIMITS_DEFAULTS_TIMEOUT: '8s', CURFEW_LIMITS_CAPS_TOTAL_TIMEOUT: '1h' },
    })
    expect((await server.enqueue()).x_limits).toMatchObject({
      timeout_ms: 7_000,
      total_ms: 3_600_000,
      sources: { timeout: 'default', total: 'cap' },
    })
    await server.stop()
  })

  test('a group of the file in which nothing is said leaves everything as it is', async () => {
    const file = join(temporaryDirectory(), 'curfew.yaml')
    writeFileSync(file, 'limits:\n  # caps:\nport: 9000\n')
    expect((await curfew(['config', '--config', file])).stdout).toMatch(/^port: 9000 /m)
  })

  test('are printed without secrets, and the print is itself a file it can read', async () => {
    const printed = await curfew(['config', '--token', 's3cret', '--port', '9999'])
    expect(printed.code).toBe(0)
    expect(printed.stdout).not.toContain('s3cret')
    expect(printed.stdout).toMatch(/^# token: .*\*+.*--token$/m)
    const file = join(temporaryDirectory(), 'printed.yaml')
    writeFileSync(file, printed.stdout)
    const again = await curfew(['config', '--config', file])
    expect(again).toMatchObject({ code: 0, stderr: '' })
    expect(again.stdout).toMatch(/^port: 9999 /m)
    expect(again.stdout).toMatch(/^token: null /m) // a hidden token cannot serve as a token, above all not a well-known one
  })

  test('the password of a database is hidden, wherever it stands, and the rest is not', async () => {
    const shown = async (address: string): Promise<string | undefined> =>
      lines((await curfew(['config', '--database', address])).stdout).find((line) => line.includes('database:'))
    expect(await shown('postgres://bob@db/jobs')).toBe('database: "postgres://bob@db/jobs"  # --database')
    expect(await shown('postgres://bob:s3cret@db:5432/jobs?sslmode=require')).toBe(
      '# database: "postgres://bob:********@db:5432/jobs?sslmode=require"  # --database',
    )
    expect(await shown('postgres://db/jobs?password=s3cret')).toBe(
      '# database: "postgres://db/jobs?password=********"  # --database',
    )
    expect(await shown('s3cret')).toBe('# database: "********"  # --database')
  })

  test('a directory and a database exclude each other: the stronger word counts, and is printed so', async () => {
    const env = { CURFEW_DATABASE: 'postgres://h/d' }
    const byEnv = await curfew(['config'], env)
    expect(byEnv.stdout).toMatch(/^data: null +# not used because of CURFEW_DATABASE$/m)
    const file = join(temporaryDirectory(), 'printed.yaml')
    writeFileSync(file, byEnv.stdout)
    expect((await curfew(['config', '--config', file])).stdout).toMatch(/^database: "postgres:\/\/h\/d" /m)
    const byFlag = await curfew(['config', '--data', 'here'], env)
    expect(byFlag.stdout).toMatch(/^data: "here" +# --data\ndatabase: null +# not used because of --data$/m)
  })
})
