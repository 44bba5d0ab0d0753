/** What a plan foresees is what a run does: the examples once more, each beside its plan, state by state. */
import { readFileSync } from 'node:fs'
import { FakeClock, millis, planJourney, seededRandom, type Assumptions } from '@curfew/core'
import { Client } from '@curfew/sdk'
import { expect, test } from 'vitest'
import { definitionOf } from '../../packages/server/src/engine/definitions/definitions.ts'
import { CallFailed, type Send } from '../../packages/server/src/engine/outgoing.ts'
import { TestServer } from '../harness.ts'

const yamlOf = (name: string): string =>
  readFileSync(new URL(`../../examples/journeys/${name}/journey.yaml`, import.meta.url), 'utf8')

/** `https://<name>.example` answers `{…body}` after so long; null: never. */
type Answers = Readonly<Record<string, { afterMs: number | null; status?: number; body?: unknown }>>

function answering(clock: FakeClock, answers: Answers): Send {
  return ({ url, signal }) =>
    new Promise((resolve, reject) => {
      const {
        afterMs,
        status = 200,
        body = {},
      } = answers[new URL(url).hostname.split('.')[0] ?? ''] ?? { afterMs: null }
      const headers = { 'content-type': 'application/json' }
      const answer = (): void => resolve({ status, headers, body: JSON.stringify(body), truncated: false })
      const timer = afterMs === null ? null : clock.setTimer(afterMs, answer)
      signal.addEventListener('abort', () => {
        timer?.cancel()
        reject(new CallFailed('the time was up', null))
      })
    })
}

interface Story {
  readonly folder: string
  readonly input: object
  readonly answers: Answers
  readonly takes: Assumptions['takes']
  readonly chooses?: Assumptions['chooses']
}

const stories: readonly [string, Story][] = [
  [
    'a race that the call wins',
    {
      folder: 'parallel-race-with-timer',
      input: { user: 'ada' },
      answers: { taste: { afterMs: 700, body: { book: 'Emma' } } },
      takes: { 'race/personal/ask': millis(700) },
      chooses: { answered: ['found'] },
    },
  ],
  [
    'a race that the timer wins',
    {
      folder: 'parallel-race-with-timer',
      input: { user: 'ada' },
      answers: { taste: { afterMs: null } },
      takes: { ask: 'forever' },
    },
  ],
  [
    'a payment that takes too long',
    {
      folder: 'compensation-after-timeout',
      input: { flight: 'CF 1', card: '4711' },
      answers: { airline: { afterMs: 400, body: { id: 'seat-1' } }, bank: { afterMs: null } },
      takes: { book: millis(400), charge: 'forever' },
      chooses: { booked: ['charge'] },
    },
  ],
  [
    'a loop that gives up',
    {
      folder: 'loop-with-bounded-retries',
      input: { export: '7' },
      answers: { exports: { afterMs: 100, body: { ready: false } } },
      takes: { ask: millis(100) },
      chooses: { look: ['rest', 'rest', 'rest', 'rest', 'givenUp'] },
    },
  ],
  [
    'a loop that runs out of time',
    {
      folder: 'loop-with-bounded-retries',
      input: { export: '7' },
      answers: { exports: { afterMs: null } },
      takes: { ask: 'forever' },
    },
  ],
  [
    'a promise that is broken after a day',
    {
      folder: 'kyc-with-callback-and-sla',
      input: { customer: 'Ada' },
      answers: { kyc: { afterMs: 250, status: 202, body: { id: 'check-1' } } },
      takes: { '*': 'forever', request: millis(250) },
      chooses: { requested: ['verdict'] },
    },
  ],
  [
    'no decision',
    {
      folder: 'approval-with-escalation',
      input: { invoice: 'R-1', amount: 500 },
      answers: { mail: { afterMs: 10 } },
      takes: { '*': 'forever' },
    },
  ],
]

test.each(stories)('%s', async (_, { folder, input, answers, takes, chooses = {} }) => {
  const clock = new FakeClock()
  const server = await TestServer.open({ clock, send: answering(clock, answers) })
  const client = new Client({ server, host: clock, random: seededRandom(11) })
  const yaml = yamlOf(folder)
  const name = /name: ([a-z-]+)/.exec(yaml)?.[1] ?? ''
  await client.journeys.deploy(name, yaml)
  const deployed = await definitionOf(server.engine, name, null)
  if (deployed === null) throw new Error('not deployed')
  const plan = planJourney(deployed.definition, server.engine.settings.limits.run, { takes, chooses }, clock.now())

  const started = client.journeys.start(name, input)
  await server.advance(plan.budgetMs)
  const { states, ending } = await client.journeys.explain(await started)

  const inOrder = (a: readonly unknown[], b: readonly unknown[]): number => String(a).localeCompare(String(b))
  expect(
    states
      .map(({ state, startsAfterMs, durationMs }) => [state, startsAfterMs, startsAfterMs + durationMs])
      .sort(inOrder),
  ).toEqual(plan.visits.map(({ path, startsAfterMs, endsAfterMs }) => [path, startsAfterMs, endsAfterMs]).sort(inOrder))
  expect(ending).toMatchObject({ terminationKind: plan.end.kind, terminatedAtState: plan.end.path })
  await server.close()
})
