import { describe, expect, test } from 'vitest'
import { envOf, flagOf, loadSettings, SETTINGS, settingsFrom, SettingsError } from './settings.ts'

function refusal(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof SettingsError) return error.message
    throw error
  }
  return 'taken'
}

describe('a setting that would stop everything', () => {
  const lengths = SETTINGS.filter(({ kind, key }) => kind === 'duration' && !key.endsWith('grace-period'))

  test.each(lengths.map((setting) => [setting.key, setting] as const))(
    '%s of 0s is refused, with the flag, the range and the remedy',
    (_, setting) => {
      for (const value of ['0s', '0ms']) {
        const message = refusal(() => loadSettings([flagOf(setting), value], {}))
        expect(message).toMatch(/^--[a-z-]+ must be between \d+m?s and 3650d, and not 0m?s\. Leave it out /)
        expect(message.startsWith(flagOf(setting))).toBe(true)
        expect(refusal(() => loadSettings([], { [envOf(setting)]: value }))).toContain(envOf(setting))
        expect(refusal(() => settingsFrom({ [setting.key]: value }))).toContain(setting.key)
      }
    },
  )

  test('says what leaving it out means', () => {
    expect(refusal(() => loadSettings(['--limits-defaults-timeout', '0s'], {}))).toBe(
      '--limits-defaults-timeout must be between 100ms and 3650d, and not 0s. Leave it out for the default, 30m.',
    )
    expect(refusal(() => loadSettings(['--limits-caps-timeout', '5ms'], {}))).toBe(
      '--limits-caps-timeout must be between 100ms and 3650d, and not 5ms. Leave it out to set none.',
    )
  })

  test.each(['expressions.max-output-bytes', 'retention.dead-letter-max', 'retention.events-max'])(
    '%s of 0 is refused',
    (key) => {
      expect(refusal(() => settingsFrom({ [key]: 0 }))).toMatch(/ must be between \d+ and 999999999, and not 0\. Leave/)
    },
  )

  test('no default is refused by its own range', () => {
    for (const { key, kind, byDefault } of SETTINGS)
      if (byDefault !== null) {
        const value = kind === 'duration' ? `${String(byDefault)}ms` : byDefault
        expect(settingsFrom({ [key]: value })[key]).toBe(byDefault)
      }
  })

  test.each(['limits.defaults.grace-period', 'limits.caps.grace-period'])('%s may be 0s: no grace', (key) => {
    expect(settingsFrom({ [key]: '0s' })[key]).toBe(0)
  })

  test('port 0 picks a free one', () => {
    expect(loadSettings(['--port', '0'], {}).values['port']).toBe(0)
  })
})

describe('a variable of the environment', () => {
  test('that is not known is reported, with the nearest one, and stops nothing', () => {
    const { warnings, values } = loadSettings([], {
      CURFEW_PROT: '9000',
      CURFEW_LIMITS_DEFAULT_TIMEOUT: '5m',
      CURFEW_TOTAL_TIMEOUT: '5m',
      CURFEW_SOMETHING_ELSE: '1',
    })
    expect(values['port']).toBe(8080)
    expect(warnings).toEqual([
      'CURFEW_PROT is not a known variable and has no effect. Did you mean CURFEW_PORT?',
      'CURFEW_LIMITS_DEFAULT_TIMEOUT is not a known variable and has no effect. Did you mean CURFEW_LIMITS_DEFAULTS_TIMEOUT?',
      'CURFEW_TOTAL_TIMEOUT is not a known variable and has no effect. Did you mean CURFEW_LIMITS_DEFAULTS_TOTAL_TIMEOUT?',
      'CURFEW_SOMETHING_ELSE is not a known variable and has no effect. curfew serve --help lists those that are.',
    ])
  })

  test('that Kubernetes sets for a service named curfew is ignored, and said so once', () => {
    const { warnings, values } = loadSettings([], {
      CURFEW_PORT: 'tcp://10.0.0.1:8080',
      CURFEW_SERVICE_HOST: '10.0.0.1',
      CURFEW_SERVICE_PORT: '8080',
      CURFEW_SERVICE_PORT_HTTP: '8080',
      CURFEW_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
      CURFEW_PORT_8080_TCP_PROTO: 'tcp',
      CURFEW_PORT_8080_TCP_PORT: '8080',
      CURFEW_PORT_8080_TCP_ADDR: '10.0.0.1',
    })
    expect(values['port']).toBe(8080)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/^Ignored CURFEW_PORT, CURFEW_SERVICE_HOST, .*Kubernetes.*enableServiceLinks: false/)
  })

  test('CURFEW_PORT with a port counts, and with anything else is refused', () => {
    expect(loadSettings([], { CURFEW_PORT: '9000' })).toMatchObject({ values: { port: 9000 }, warnings: [] })
    expect(refusal(() => loadSettings([], { CURFEW_PORT: 'http://10.0.0.1:8080' }))).toContain('CURFEW_PORT must be')
  })

  test('CURFEW_STRICT makes the server strict', () => {
    expect(loadSettings([], { CURFEW_STRICT: 'true' }).values['strict']).toBe(true)
    expect(loadSettings([], {}).values['strict']).toBe(false)
  })
})

describe('an unknown flag or key is refused, with the nearest one', () => {
  test.each([
    ['--prot', '--port'],
    ['--limits-default-timeout', '--limits-defaults-timeout'],
    ['--limits-defaults-tiemout=5s', '--limits-defaults-timeout'],
    ['--total-timeout', '--limits-defaults-total-timeout'],
    ['--run-caps', '--run-cap'],
    ['--limits-run-cap', '--run-cap'],
  ])('%s: %s', (flag, nearest) => {
    expect(refusal(() => loadSettings([flag, '1'], {}))).toBe(
      `Unknown flag ${flag.replace(/=.*/, '')}. Did you mean ${nearest}? See curfew serve --help.`,
    )
  })

  test('without a suggestion where nothing is near', () => {
    expect(refusal(() => loadSettings(['--colour', '1'], {}))).toBe('Unknown flag --colour. See curfew serve --help.')
  })

  test('a key of a program or a file', () => {
    expect(refusal(() => settingsFrom({ limits: { defaults: { tiemout: '5s' } } }))).toContain(
      'Did you mean limits.defaults.timeout?',
    )
  })
})
