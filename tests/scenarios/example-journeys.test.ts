/** The journeys under examples/, each on a clock turned by hand: what they do in time, and what they do when it is up. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import type { JourneyDefinition } from '@curfew/sdk'

const folder = new URL('../../examples/journeys/', import.meta.url)
const names = readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))

const yamlOf = (name: string): string => readFileSync(new URL(`${name}/journey.yaml`, folder), 'utf8')

test('there are eight of them', () => {
  expect(names).toHaveLength(8)
})

test.each(names)('%s is the same in YAML and as a program', async (name) => {
  const module = (await import(new URL(`${name}/journey.mjs`, folder).href)) as { definition: JourneyDefinition }
  expect(module.definition.toJSON()).toEqual(parse(yamlOf(name)))
})
