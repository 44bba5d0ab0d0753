import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database, { type Database as Connection } from 'better-sqlite3'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readLog, writtenSince } from './sqlite-log.ts'

let folder: string
let file: string
let db: Connection

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'curfew-log-'))
  file = join(folder, 'log.db')
  db = new Database(file)
  db.pragma('journal_mode = WAL')
  db.exec('CREATE TABLE t (x)')
})

afterEach(() => {
  db.close()
  rmSync(folder, { recursive: true, force: true })
})

const restart = (): void => void db.pragma('wal_checkpoint(RESTART)')
const insert = (text: string): void => void db.prepare('INSERT INTO t VALUES (?)').run(text)
const PAGE = 4_096 + 24

test('commits and pages since the log was told to start again are counted, and nothing before', () => {
  insert('before')
  restart()
  const before = readLog(file)
  expect(writtenSince(before, readLog(file))).toEqual({ commits: 0, bytes: 0 })
  insert('one')
  expect(writtenSince(before, readLog(file))).toMatchObject({ commits: 1, bytes: PAGE })
  insert('two')
  expect(writtenSince(before, readLog(file))).toMatchObject({ commits: 2, bytes: 2 * PAGE })
})

test('a log that is shorter than the one before it does not count the rest of that one', () => {
  for (let n = 0; n < 20; n++) insert('x'.repeat(5_000))
  restart()
  const before = readLog(file)
  insert('one')
  expect(writtenSince(before, readLog(file))).toMatchObject({ commits: 1, bytes: PAGE })
})

test('a longer row takes more pages', () => {
  restart()
  const before = readLog(file)
  insert('x'.repeat(10_000))
  expect(writtenSince(before, readLog(file)).bytes).toBeGreaterThan(PAGE)
})

test('a log that starts again meanwhile is an error, not a smaller number', () => {
  restart()
  const before = readLog(file)
  insert('one')
  restart()
  insert('two')
  expect(() => writtenSince(before, readLog(file))).toThrow('started again')
})
