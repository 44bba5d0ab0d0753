// This build beside another: rounds of both in turn, on servers of their own, and the ratio.
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'
import { HERE, startLoad, startServer } from './processes.mjs'
import { row } from './report.mjs'

/** The SDK of a checkout, as a module to import. */
export const sdkOf = (root) => pathToFileURL(resolve(root, 'packages/sdk/dist/index.js')).href

/**
 * `ways`: what is measured, by the label of its rows. `once(build, way)` answers one figure of a build, which is
 * `{ port, sdk, load }`. A ratio above one says that this build is faster.
 */
export async function compare({ against, rounds, ways, once }) {
  const builds = []
  const rows = []
  try {
    for (const [label, root] of [
      ['this build', HERE],
      ['the other', against],
    ]) {
      const server = await startServer({ root })
      builds.push({ label, server, port: server.port, sdk: sdkOf(root), load: startLoad() })
    }
    for (const way of ways) {
      const seen = new Map(builds.map((build) => [build, []]))
      for (const build of builds) await once(build, way) // warm up
      for (let round = 0; round < rounds; round += 1)
        for (const build of round % 2 === 0 ? builds : [...builds].reverse())
          seen.get(build).push(await once(build, way))
      for (const [{ label }, figures] of seen) rows.push(row(`${way.label}, ${label}`, 'jobs/s', figures))
      const [ours, others] = [...seen.values()]
      const ratios = ours.map((figure, round) => figure / others[round])
      rows.push(row(`${way.label}, ratio`, '', ratios))
    }
  } finally {
    await Promise.all(builds.flatMap(({ server, load }) => [server.stop(), load.stop()]))
  }
  return rows
}
