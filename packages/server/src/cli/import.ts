/**
 * `curfew import`: fills an empty store with what `curfew export` wrote, batch by batch. The store counts as half
 * restored until the last line has been seen to be right; a server refuses to serve it until then. So a target is
 * either whole, or empty, or (when the process was killed) known to be a part, which the next import removes.
 */
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { onAbort } from '../engine/kernel/until.ts'
import { NOTHING, RowsMoved, StoreUnavailable, type Life, type Sizes, type Store } from '../store/store.ts'
import { refuseServed, total } from './export.ts'
import { interruptible, Stopped } from './frame/interrupt.ts'
import { BadLine, linesOf, type NumberedLine } from './lines.ts'
import { nameOf, openStore, placeOf } from '../open-store.ts'
import { grouped, Progress } from './frame/progress.ts'
import { BadRecord } from './record-checks.ts'
import type { Header } from './record-kinds.ts'
import { readHeader, readLine, type Filling } from './records.ts'
import { SettingsError, type Settings } from '../settings.ts'

const BATCH_RECORDS = 1_000
/** Fewer records when they are large. */
const BATCH_CHARACTERS = 8 * 1024 * 1024

export interface ImportOptions {
  readonly settings: Settings
  /** `-`: standard input. */
  readonly file: string
}

export async function runImport({ settings, file }: ImportOptions): Promise<void> {
  if (file === '-' && process.stdin.isTTY) throw new SettingsError('Name a file, or redirect the input.')
  const into = nameOf(placeOf(settings))
  const { signal, release } = interruptible()
  const input: Readable = file === '-' ? process.stdin : createReadStream(file)
  onAbort([signal], () => {
    input.destroy(new Stopped())
  })
  const lines = linesOf(input as AsyncIterable<Uint8Array>)
  try {
    const header = await headerOf(lines)
    const store = await openStore(settings)
    try {
      await refuseServed(store, into)
      await emptied(store, into)
      // From here on no server begins on it, however long the lines take to come.
      await store.restore(NOTHING, true)
      const progress = new Progress('imported', total(header.counts))
      const records = await fill(store, lines, signal, progress)
        .catch((error: unknown) => undo(store, into, error))
        .finally(() => {
          progress.clear()
        })
      process.stderr.write(
        `Imported ${grouped(records)} records, exported at ${header.exported_at}, into ${into} in ${progress.seconds()}.\n`,
      )
    } finally {
      await store.close()
    }
  } finally {
    release()
    input.destroy()
  }
}

export async function headerOf(lines: AsyncGenerator<NumberedLine>): Promise<Header> {
  const first = await lines.next()
  if (first.done === true) throw new BadLine(1, 'the file is empty')
  return numbered(1, () => readHeader(first.value.text))
}

async function emptied(store: Store, name: string): Promise<void> {
  if (await store.isHalfRestored()) {
    process.stderr.write(`Removing the part that an unfinished import has left in ${name}.\n`)
    await store.reset()
    return
  }
  const sizes = await store.sizes()
  if (total(sizes) === 0) return
  throw new Error(`${name} is not empty (${listed(sizes)}). An import needs an empty one; nothing was written.`)
}

const listed = (sizes: Sizes): string =>
  Object.entries(sizes)
    .filter(([, n]) => n > 0)
    .map(([kind, n]) => `${kind}: ${grouped(Number(n))}`)
    .join(', ')

/** Gives the number of records. */
export async function fill(
  store: Store,
  lines: AsyncIterable<NumberedLine>,
  signal: AbortSignal,
  progress: Pick<Progress, 'advance'>,
): Promise<number> {
  let batch = newBatch()
  let gathered = 0
  let characters = 0
  let records = 0
  let sequence = 0
  let last = 1
  let written = 1
  let ended = false
  const write = async (more: boolean): Promise<void> => {
    try {
      // A sign of life comes last: until then, one in the target is that of a server there.
      await store.restore({ ...batch, life: more ? null : batch.life }, more)
    } catch (error) {
      if (!(error instanceof RowsMoved)) throw error
      throw new Error(`lines ${String(written + 1)} to ${String(last)}: ${error.message}`, { cause: error })
    }
    progress.advance(gathered)
    batch = newBatch(batch.life)
    gathered = 0
    characters = 0
    written = last
  }
  for await (const { number, text } of lines) {
    signal.throwIfAborted()
    last = number
    if (ended) throw new BadLine(number, 'there is a line after the end record')
    const line = numbered(number, () => readLine(text))
    if ('end' in line) {
      if (line.end.records !== records)
        throw new BadLine(
          number,
          `the end record counts ${String(line.end.records)} records, but the file has ${String(records)}`,
        )
      ended = true
      continue
    }
    if (line.sequence !== null) {
      if (line.sequence <= sequence) throw new BadLine(number, `event ${String(line.sequence)} is out of order`)
      sequence = line.sequence
    }
    line.addTo(batch)
    gathered += 1
    records += 1
    characters += text.length
    if (gathered >= BATCH_RECORDS || characters >= BATCH_CHARACTERS) await write(true)
  }
  signal.throwIfAborted()
  if (!ended) throw new BadLine(last + 1, 'the end record is missing: the file is incomplete')
  await write(false)
  return records
}

/** Leaves the target empty, and tells so. */
async function undo(store: Store, name: string, cause: unknown): Promise<never> {
  const why = cause instanceof Error ? cause.message : String(cause)
  const reason = /[.!?]$/.test(why) ? why : `${why}.`
  let left = `Nothing was imported: ${name} is empty.`
  try {
    await store.reset()
  } catch (error) {
    const trouble = error instanceof StoreUnavailable ? error.reason : String(error)
    left = `${name} could not be emptied again (${trouble}): it holds a part, which no server will serve. Run the import again.`
  }
  const message = `${reason} ${left}`
  throw cause instanceof Stopped ? new Stopped(message) : new Error(message, { cause })
}

function numbered<T>(number: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof BadRecord ? new BadLine(number, error.message) : error
  }
}

function newBatch(life: Life | null = null): Filling {
  return {
    queues: [],
    types: [],
    workers: [],
    notices: [],
    jobs: [],
    checkpoints: [],
    docs: [],
    tombstones: [],
    events: [],
    inbox: [],
    refused: [],
    life,
  }
}
