/** The cases themselves: readable, told apart, and listed in the README with the paragraph they test. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readCases } from './lib/cases.mjs'

const cases = readCases(fileURLToPath(new URL('cases', import.meta.url)))
const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8')

test('every case can be read', () => {
  expect(cases.filter(({ problem }) => problem !== null)).toEqual([])
  expect(cases.length).toBeGreaterThan(100)
})

test('no two cases share an id', () => {
  expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length)
})

/** Paths that the HTTP binding does not have, and the extension whose paths they are. */
const BEYOND_THE_BINDING: readonly (readonly [RegExp, string])[] = [
  [/^POST \/ojs\/v1\/workers\/(register|deregister)$/, 'urn:curfew:ext:worker-registry'],
  [/^GET \/ojs\/v1\/workers\//, 'urn:curfew:ext:worker-registry'],
  [/^POST \/ojs\/v1\/admin\/workers\/[^/]+\/(terminate|resume)$/, 'urn:curfew:ext:worker-registry'],
  [/^POST \/ojs\/v1\/admin\/workers\/[^/]+\/quiet$/, 'urn:ojs:ext:admin-api'],
  [/^PUT \/ojs\/v1\/admin\/queues\/[^/]+\/config$/, 'urn:ojs:ext:backpressure'],
  [/^GET \/metrics$/, 'urn:curfew:ext:prometheus'],
  [/^GET \/ojs\/v1\/events$/, 'urn:ojs:ext:events'],
  [/^\w+ \/ojs\/v1\/jobs\/[^/]+\/checkpoint$/, 'urn:ojs:ext:durable-execution'],
  [/^\w+ \/ojs\/v1\/jobs\/[^/]+\/progress$/, 'urn:ojs:ext:progress'],
]
const IN_THE_BINDING = [
  /^(GET|POST) \/ojs\/v1\/jobs(\/batch)?$/,
  /^(GET|DELETE) \/ojs\/v1\/jobs\/[^/]+$/,
  /^POST \/ojs\/v1\/workers\/(fetch|ack|nack|heartbeat)$/,
  /^POST \/ojs\/v1\/queues\/[^/]+\/(pause|resume)$/,
  /^GET \/ojs\/v1\/dead-letter$/,
  /^\w+ \/ojs\/v1\/(cron|workflows)(\/[^/]+)?$/,
]

interface Step {
  readonly kind: string
  readonly method: string
  readonly path: string
  readonly body: unknown
}
const stepsOf = ({ setup, steps, teardown }: (typeof cases)[number]): Step[] =>
  [...setup, ...steps, ...teardown].map((step) => step as Step).filter(({ kind }) => kind === 'request')

test.each(cases.map((one) => [one.id, one] as const))('%s requires the extensions whose paths it asks', (_, one) => {
  const own = one.tags.includes('x_curfew')
  for (const { method, path } of stepsOf(one)) {
    const way = `${method} ${path.replaceAll(/\{\{.*?\}\}|\$\{.*?\}/g, 'it').split('?')[0] ?? ''}`
    const needed = BEYOND_THE_BINDING.find(([pattern]) => pattern.test(way))?.[1]
    if (needed !== undefined) expect(one.requires).toContain(needed)
    else expect([way, own || IN_THE_BINDING.some((pattern) => pattern.test(way))]).toEqual([way, true])
  }
})

test.each(cases.map((one) => [one.id, one] as const))('%s sends options where the HTTP binding has them', (_, one) => {
  const inOptions = [
    'queue',
    'priority',
    'retry',
    'unique',
    'tags',
    'expires_at',
    'delay_until',
    'scheduled_at',
    'pending',
  ]
  const jobs = stepsOf(one).flatMap(({ method, path, body }) => {
    if (method !== 'POST' || !/\/ojs\/v1\/jobs(\/batch)?$/.test(path)) return []
    const sent = body as { jobs?: object[] } | undefined
    return sent?.jobs ?? [sent ?? {}]
  })
  for (const job of jobs) expect(Object.keys(job).filter((key) => inOptions.includes(key))).toEqual([])
})

test('every case says how strongly the specification asks for it', () => {
  const strength = /^(must|should|may)$/
  expect(cases.filter(({ tags }) => tags.filter((tag) => strength.test(tag)).length !== 1)).toEqual([])
})

test.each(cases.map((one) => [one.id, one] as const))('the README says what %s tests', (id, { name, spec, tags }) => {
  const line = readme.split('\n').find((row) => row.startsWith(`| ${id} |`))
  expect(line).toBeDefined()
  expect(line).toContain(name)
  expect(line).toContain(spec.replace('#section-', ' §'))
  expect(line).toContain(`| ${tags[0]} |`)
})
