// Does taking jobs become slower when a million are waiting?
import { copies, startDatabase } from '../lib/postgres.mjs'
import { compareClaims } from './claims.mjs'

export const name = 'Claims from a deep queue'

export async function run({ quick }) {
  const [shallow, deep] = quick ? [1_000, 50_000] : [10_000, 1_000_000]
  const database = await startDatabase()
  const fill = (jobs) => (schema) => database.sql(schema, ...copies(jobs, { state: 'available' }))
  const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ' ')
  return {
    name,
    ...(await compareClaims(database, { quick, few: fill(shallow), many: fill(deep) }, [
      `${count(shallow)} waiting`,
      `${count(deep)} waiting`,
    ])),
  }
}
