import { expect, test } from 'vitest'
import { Conversation, Messages, WireCounts } from './wire.ts'

/** A message of the protocol: a letter, its length, and what is in it. */
function message(letter: string, content = ''): Buffer {
  const bytes = Buffer.from(`${letter}\0\0\0\0${content}`)
  bytes.writeUInt32BE(bytes.length - 1, 1)
  return bytes
}

const PARSE = message('P', 's1\0SELECT 1\0\0\0')
const BIND = message('B', '\0s1\0\0\0\0\0\0\0')
const DESCRIBE = message('D', 'P\0')
const EXECUTE = message('E', '\0\0\0\0\0')
const SYNC = message('S')
const FLUSH = message('H')
const BOUND = message('2')
const DESCRIBED = message('n')
const ERROR = message('E', 'SERROR\0\0')
const done = (tag: string): Buffer => message('C', `${tag}\0`)
const ready = (status: string): Buffer => message('Z', status)

/** A connection whose questions and answers are all counted. */
function connection(): {
  ask: (...messages: Buffer[]) => void
  answer: (...messages: Buffer[]) => void
  counts: WireCounts
  talk: Conversation
} {
  const talk = new Conversation()
  const counts = new WireCounts()
  return {
    ask: (...messages) => messages.forEach((one) => talk.asked(one, counts)),
    answer: (...messages) => messages.forEach((one) => talk.answered(one, counts)),
    counts,
    talk,
  }
}

test('messages are cut where they end, however the bytes arrive', () => {
  const bytes = Buffer.concat([BIND, EXECUTE, SYNC])
  const whole = new Messages().add(bytes)
  const messages = new Messages()
  const single = [...bytes].flatMap((byte) => messages.add(Buffer.from([byte])))
  expect(single).toEqual([BIND, EXECUTE, SYNC])
  expect(whole).toEqual(single)
})

test('a question is open until the database is ready, and only what was flushed is waited for', () => {
  const { ask, answer, talk } = connection()
  ask(PARSE, BIND, DESCRIBE, EXECUTE)
  expect(talk.isWaiting).toBe(false)
  ask(SYNC)
  expect(talk.isWaiting).toBe(true)
  answer(message('1'), BOUND, DESCRIBED, done('SELECT 0'))
  expect(talk.isWaiting).toBe(true)
  answer(ready('I'))
  expect([talk.isWaiting, talk.isIdle]).toEqual([false, true])
})

test('what a Flush asks for is answered without the database being ready', () => {
  const { ask, answer, talk } = connection()
  ask(BIND, EXECUTE, FLUSH)
  expect(talk.isWaiting).toBe(true)
  answer(BOUND, done('SELECT 0'))
  expect(talk.isWaiting).toBe(false)
  ask(SYNC)
  expect(talk.isWaiting).toBe(true)
  answer(ready('I'))
  expect(talk.isWaiting).toBe(false)
})

test('after an error nothing is waited for that the database drops', () => {
  const { ask, answer, talk } = connection()
  ask(BIND, EXECUTE, BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC)
  answer(BOUND, ERROR, ready('I'))
  expect(talk.isWaiting).toBe(true)
  answer(BOUND, done('SELECT 1'), ready('I'))
  expect(talk.isWaiting).toBe(false)
})

test('questions that follow an error before the Sync are dropped as well', () => {
  const { ask, answer, talk } = connection()
  ask(BIND, EXECUTE, FLUSH)
  answer(ERROR)
  ask(BIND, EXECUTE, SYNC)
  answer(ready('I'))
  expect([talk.isWaiting, talk.isIdle]).toEqual([false, true])
})

test('a transaction is one commit, however many statements and Syncs it has', () => {
  const { ask, answer, counts, talk } = connection()
  ask(BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC)
  answer(BOUND, done('BEGIN'), ready('T'), BOUND, done('INSERT 0 3'), ready('T'))
  expect(talk.isIdle).toBe(false)
  answer(BOUND, done('COMMIT'), ready('I'))
  expect([counts.statements, counts.commits]).toEqual([3, 1])
})

test('two transactions that share a Sync are two commits', () => {
  const { ask, answer, counts } = connection()
  ask(...Array.from({ length: 4 }, () => [BIND, EXECUTE]).flat(), SYNC)
  answer(BOUND, done('BEGIN'), BOUND, done('COMMIT'), BOUND, done('BEGIN'), BOUND, done('COMMIT'), ready('I'))
  expect(counts.commits).toBe(2)
})

test('a statement that writes outside of a transaction is a commit, one that reads is none', () => {
  const { ask, answer, counts } = connection()
  ask(BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC)
  answer(BOUND, done('SELECT 4'), ready('I'))
  expect(counts.commits).toBe(0)
  answer(BOUND, done('INSERT 0 1'), ready('I'))
  expect(counts.commits).toBe(1)
})

test('a transaction that is rolled back does not count as a commit', () => {
  const { ask, answer, counts } = connection()
  ask(BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC, BIND, EXECUTE, SYNC)
  answer(BOUND, done('BEGIN'), ready('T'), ERROR, ready('E'), BOUND, done('ROLLBACK'), ready('I'))
  expect(counts.commits).toBe(0)
})

test('rows, bytes of both ways and the names of statements are counted; notifications are not', () => {
  const { ask, answer, counts } = connection()
  ask(PARSE, BIND, EXECUTE, SYNC, message('Q', 'SELECT  2\n-- two\0'))
  answer(message('1'), BOUND, message('D', '\0\0'), message('D', '\0\0'), done('SELECT 2'), ready('I'))
  answer(message('A', 'news'))
  const sent = PARSE.length + BIND.length + EXECUTE.length + SYNC.length + 'Q....SELECT  2.-- two.'.length
  expect([counts.parses, counts.rows, counts.bytesSent]).toEqual([1, 2, sent])
  expect(counts.bytesReceived).toBe(5 + 5 + 7 + 7 + done('SELECT 2').length + 6)
  expect([...counts.tally.counts]).toEqual([
    ['s1', 1],
    ['SELECT 2', 1],
  ])
})
