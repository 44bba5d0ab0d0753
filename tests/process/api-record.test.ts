/**
 * The types that the packages show to others are what tests/api-record says. Comments may change freely. A change that is
 * meant is recorded with `npm run api:record`, and its diff is reviewed like code.
 */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { publicTypes } from './public-types.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const record = (name: string): string => `${root}tests/api-record/${name}`
const isOurs = (file: string): boolean => /\/packages\/(?:core|sdk|server)\/dist\//.test(file)

test.each([
  ['sdk.txt', 'sdk/dist/index.d.ts'],
  ['sdk-testing.txt', 'sdk/dist/testing/index.d.ts'],
  ['sdk-telemetry.txt', 'sdk/dist/telemetry.d.ts'],
  ['server.txt', 'server/dist/index.d.ts'],
])('the types in %s are those that %s gives', async (name, entry) => {
  await expect(publicTypes(`${root}packages/${entry}`, isOurs)).toMatchFileSnapshot(record(name))
})
