/** The door between a server and its database, with a database that answers when the test says so. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Lockstep } from './lockstep.ts'

const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])
const STARTUP = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0])

function query(text: string): Buffer {
  const bytes = Buffer.from(`Q\0\0\0\0${text}\0`)
  bytes.writeUInt32BE(bytes.length - 1, 1)
  return bytes
}

let database: Server
let door: Lockstep
/** What the database has read of each connection, in the order in which they were opened. */
let reached: { readonly socket: Socket; text: string }[]

beforeEach(async () => {
  reached = []
  database = createServer((socket) => {
    const line = { socket, text: '' }
    reached.push(line)
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(READY)
      socket.on('data', (chunk: Buffer) => (line.text += chunk.toString('latin1')))
    })
  })
  database.listen(0, '127.0.0.1')
  await once(database, 'listening')
  door = await Lockstep.open('127.0.0.1', (database.address() as AddressInfo).port)
})

afterEach(async () => {
  await door.close()
  database.close()
})

/** A connection of the server through the door, past its start. */
async function open(): Promise<{ ask: (text: string) => void; heard: () => number; socket: Socket }> {
  const socket = connect(door.port, '127.0.0.1')
  let bytes = 0
  socket.on('data', (chunk: Buffer) => (bytes += chunk.length))
  socket.write(STARTUP)
  await until(() => bytes === READY.length)
  bytes = 0
  return { ask: (text) => void socket.write(query(text)), heard: () => bytes / READY.length, socket }
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turn()
}

function hasReached(line: number, text: string): Promise<void> {
  return until(() => reached[line]?.text.includes(text) === true)
}

function answer(line: number): void {
  reached[line]?.socket.write(READY)
}

test('a question that waits for the answer to another is a round trip of its own', async () => {
  const { ask, heard } = await open()
  door.start()
  ask('first')
  await hasReached(0, 'first')
  answer(0)
  await until(() => heard() === 1)
  ask('second')
  await hasReached(0, 'second')
  answer(0)
  await until(() => heard() === 2)
  expect(door.stop().roundTrips).toBe(2)
})

test('questions that do not wait for each other are one round trip, even if the first is answered at once', async () => {
  const { ask, heard } = await open()
  door.start()
  ask('first')
  await hasReached(0, 'first')
  answer(0)
  // The answer is at the door by now, or nearly.
  await turn()
  ask('second')
  await hasReached(0, 'second')
  expect(heard()).toBe(0)
  answer(0)
  await until(() => heard() === 2)
  expect(door.stop().roundTrips).toBe(1)
})

test('an answer waits for those of other connections: asked together, they are one round trip', async () => {
  const [one, other] = [await open(), await open()]
  door.start()
  one.ask('quick')
  other.ask('slow')
  await Promise.all([hasReached(0, 'quick'), hasReached(1, 'slow')])
  answer(0)
  for (let n = 0; n < 100; n++) await turn()
  expect([one.heard(), other.heard(), door.isBusy]).toEqual([0, 0, true])
  answer(1)
  await until(() => one.heard() === 1 && other.heard() === 1)
  expect(door.stop().roundTrips).toBe(1)
})

test('a notification is handed on and does not count as a round trip', async () => {
  const { heard } = await open()
  door.start()
  reached[0]?.socket.write(Buffer.from([0x41, 0, 0, 0, 5, 0]))
  await until(() => heard() === 1)
  expect(door.stop().roundTrips).toBe(0)
})

test('a statement of the door itself is neither counted nor answered to the server', async () => {
  const { ask, heard } = await open()
  door.start()
  const done = door.onEach('flush')
  await hasReached(0, 'flush')
  ask('after')
  answer(0)
  await done
  await hasReached(0, 'after')
  answer(0)
  await until(() => heard() === 1)
  const { wire, roundTrips } = door.stop()
  expect([wire.bytesSent, roundTrips]).toEqual([query('after').length, 1])
})
