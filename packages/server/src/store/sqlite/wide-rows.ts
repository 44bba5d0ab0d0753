/**
 * Rows of many columns, as arrays. The driver hands such a row over one column at a time, which on Node 20 costs several
 * times what SQLite needs to find it. A function that SQLite itself calls with all columns of a row at once gets them
 * for a third of that, so a query is wrapped in one: the query stays as it is written, only its result takes this way.
 */
import type { Database, Statement } from 'better-sqlite3'

const RECEIVER = 'receive_row'

export class WideRows {
  readonly #db: Database
  #received: unknown[] = []

  constructor(db: Database) {
    this.#db = db
    db.function(RECEIVER, { varargs: true }, (...row: unknown[]) => {
      this.#received.push(row)
      return null
    })
  }

  prepare<Params extends unknown[], Row>(sql: string): WideQuery<Params, Row> {
    const columns = this.#db.prepare(sql).columns()
    const names = columns.map(({ name }) => name).join(', ')
    const statement = this.#db.prepare<Params>(`SELECT ${RECEIVER}(${names}) FROM (${sql})`).pluck()
    return new WideQuery(statement, () => this.#take() as Row[])
  }

  #take(): unknown[] {
    const received = this.#received
    this.#received = []
    return received
  }
}

export class WideQuery<Params extends unknown[], Row> {
  readonly #statement: Statement<Params>
  readonly #take: () => Row[]

  constructor(statement: Statement<Params>, take: () => Row[]) {
    this.#statement = statement
    this.#take = take
  }

  get(...params: Params): Row | undefined {
    this.#take() // what a query that failed on the way may have left
    this.#statement.get(...params)
    return this.#take()[0]
  }

  all(...params: Params): Row[] {
    this.#take()
    this.#statement.all(...params)
    return this.#take()
  }
}
