// Does taking jobs become slower when millions that are over are kept?
import { copies, startDatabase } from '../lib/postgres.mjs'
import { compareClaims } from './claims.mjs'

export const name = 'Claims beside a long history'

export async function run({ quick }) {
  const kept = quick ? 100_000 : 5_000_000
  const database = await startDatabase()
  const over = copies(kept, { state: 'completed', wakeAt: '4102444800000 + n', completedAt: 'created_at' })
  const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ' ')
  return {
    name,
    ...(await compareClaims(database, { quick, few: () => {}, many: (schema) => database.sql(schema, ...over) }, [
      'nothing kept',
      `${count(kept)} finished jobs kept`,
    ])),
  }
}
