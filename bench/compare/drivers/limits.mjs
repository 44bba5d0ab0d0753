// What the machine and the runtime allow: no job server can be faster than what it has to do at least once per call.
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Pool, requestBytes } from '../../lib/http-client.mjs'

export const open = ({ kind, ...settings }) => ({ fdatasync, sqlite, http })[kind](settings)

/** A job's bytes at the end of a file, and on the disk before the next. */
function fdatasync({ folder }) {
  const file = openSync(join(folder, 'log'), 'a')
  return {
    async enqueue(argument) {
      writeSync(file, `${JSON.stringify(argument)}\n`)
      fdatasyncSync(file)
    },
    close: async () => closeSync(file),
  }
}

/** One insert, or a thousand, per commit; the settings of a durable SQLite. */
function sqlite({ folder }) {
  const db = new Database(join(folder, 'raw.db'))
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec('CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL)')
  const insert = db.prepare(`INSERT INTO jobs (state, body) VALUES ('available', ?)`)
  const insertAll = db.transaction((texts) => {
    for (const text of texts) insert.run(text)
  })
  return {
    enqueue: async (argument) => insert.run(JSON.stringify(argument)),
    enqueueMany: async (inputs) => insertAll(inputs.map((argument) => JSON.stringify(argument))),
    close: async () => db.close(),
  }
}

/** A bare node:http server that parses the same body and stores nothing, called over kept-alive connections. */
function http({ port }) {
  const pool = new Pool(port, 50)
  return {
    enqueue: (argument) =>
      pool.request(requestBytes('POST', '/jobs', { type: 'bench.compare', args: [argument], queue: 'work' })),
    close: async () => pool.close(),
  }
}
