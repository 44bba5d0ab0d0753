/**
 * The HTTP API is what tests/api-record/openapi.json says. Texts for people (descriptions, summaries) may change freely. A
 * change that is meant is recorded with `npm run api:record`, and its diff is reviewed like code.
 */
import { expect, test } from 'vitest'
import { TestServer } from './harness.ts'

test('the description of the HTTP API is the recorded one, but for texts', async () => {
  const server = await TestServer.open()
  const { body } = await server.get('/openapi.json')
  await expect(`${JSON.stringify(withoutTexts(body), null, 1)}\n`).toMatchFileSnapshot('./api-record/openapi.json')
})

/** A field of a schema may be called `description`: then its value is an object, not a text. */
function withoutTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTexts)
  if (typeof value !== 'object' || value === null) return value
  const isText = (key: string, inner: unknown): boolean =>
    typeof inner === 'string' && (key === 'description' || key === 'summary')
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, inner]) => !isText(key, inner))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, withoutTexts(inner)]),
  )
}
