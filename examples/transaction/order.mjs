// A job that is enqueued if, and only if, the transaction commits. `pg` is a client of the package pg that holds the
// transaction. Curfew must keep its data in the same PostgreSQL: docs/postgresql.md.
import { defineJob, enqueueInTransaction } from '@curfew/sdk'

export const confirm = defineJob('order.confirm', { limits: { timeout: '30s', totalTimeout: '1h' } })

/** Stores the order and the job that confirms it. Resolves with the id of the job. `schema` is where Curfew has its tables. */
export async function placeOrder(pg, order, { schema = 'curfew' } = {}) {
  await pg.query('BEGIN')
  try {
    await pg.query('INSERT INTO orders (id, amount) VALUES ($1, $2)', [order.id, order.amount])
    if (order.amount <= 0) throw new Error('an order needs an amount')
    const { id } = await enqueueInTransaction(pg, confirm, [order.id], { schema })
    await pg.query('COMMIT')
    return id
  } catch (error) {
    await pg.query('ROLLBACK') // neither the order nor the job
    throw error
  }
}
