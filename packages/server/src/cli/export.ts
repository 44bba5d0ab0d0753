/**
 * `curfew export`: writes everything a store holds as lines (records.ts), page by page, so that the size of the store
 * does not matter. A file gets its name only when it is whole.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { iso, type DocName, type Instant } from '@curfew/core'
import type { Sizes, Store } from '../store/store.ts'
import { backupFile } from './backup.ts'
import { interruptible, Stopped } from './frame/interrupt.ts'
import { nameOf, openStore, placeOf } from '../open-store.ts'
import { grouped, Progress } from './frame/progress.ts'
import type { End, Header } from './record-kinds.ts'
import { flatWorker, FORMAT, recordLine } from './records.ts'
import { SettingsError, type Settings } from '../settings.ts'

/** A server on a shared store gives a sign of life every second. */
const ALIVE_WITHIN_MS = 5_000

const FIRST_PAGE = 16
const MAX_PAGE = 1_000
/** About how much text a page should become, so that large jobs come few at a time. */
const PAGE_CHARACTERS = 4 * 1024 * 1024
/** How much is gathered before it is written. */
const WRITE_CHARACTERS = 256 * 1024

export interface ExportOptions {
  readonly settings: Settings
  /** `-`: standard output. */
  readonly file: string
  readonly force: boolean
  readonly version: string
}

export async function runExport({ settings, file, force, version }: ExportOptions): Promise<void> {
  if (file === '-' && process.stdout.isTTY) throw new SettingsError('Name a file, or redirect the output.')
  if (file !== '-' && existsSync(file)) throw new Error(`${file} already exists. Choose another name, or remove it.`)
  const from = nameOf(placeOf(settings))
  const { signal, release } = interruptible()
  const store = await openStore(settings, { mustExist: true })
  try {
    if (await store.isHalfRestored())
      throw new Error(`${from} holds only a part of its data: an import into it did not come to its end.`)
    const { aliveAt } = await store.life()
    if (!force) await refuseServed(store, from, '; or --force')
    const sizes = await store.sizes()
    const progress = new Progress('exported', total(sizes))
    const sink = file === '-' ? stdoutSink() : await fileSink(file)
    let records = 0
    try {
      for await (const lines of exportLines(store, sizes, version, Date.now() as Instant)) {
        signal.throwIfAborted()
        records += lines.length
        await sink.write(lines)
        progress.advance(lines.length)
      }
      if (!force && store.shared && (await store.life()).aliveAt !== aliveAt)
        throw new Error(
          `A server was started on ${from} during the export, so the export is not a consistent copy. Stop the server and export again.`,
        )
      await sink.end()
    } catch (error) {
      await sink.abandon()
      throw error instanceof Stopped
        ? new Stopped(`Stopped. ${file === '-' ? 'The output is incomplete.' : `${file} was not written.`}`)
        : error
    } finally {
      progress.clear()
    }
    const where = file === '-' ? '' : ` to ${file}`
    // Header and end are no records.
    process.stderr.write(`Exported ${grouped(records - 2)} records from ${from}${where} in ${progress.seconds()}.\n`)
  } finally {
    release()
    await store.close()
  }
}

/** From a copy of the file beside it, which is removed again. */
export async function exportCopy(settings: Settings, asked: Omit<ExportOptions, 'settings'>): Promise<void> {
  const place = placeOf(settings)
  if (place.kind !== 'file')
    throw new SettingsError('--live is for SQLite data files. For PostgreSQL, stop the servers, or use --force.')
  const folder = mkdtempSync(join(dirname(place.file), '.export-'))
  try {
    const data = { ...settings, data: folder, database: null }
    backupFile(settings, join(folder, basename(place.file)))
    await runExport({ ...asked, settings: data })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A file that a server uses cannot even be opened; a database can. */
export async function refuseServed(store: Store, name: string, orElse = ''): Promise<void> {
  const { aliveAt } = await store.life()
  if (store.clock === null || aliveAt === null) return
  const age = store.clock.now() - aliveAt
  if (age >= ALIVE_WITHIN_MS) return
  throw new Error(
    `A server was active on ${name} ${(Math.max(0, age) / 1000).toFixed(1)} s ago. Stop every server first, ` +
      `and try again after ${String(ALIVE_WITHIN_MS / 1000)} s${orElse}.`,
  )
}

export function total(sizes: Sizes): number {
  return (Object.values(sizes) as number[]).reduce((sum, n) => sum + n, 0)
}

// ---- The lines ----

/** Page by page; header and end are lines too. */
export async function* exportLines(
  store: Store,
  sizes: Sizes,
  version: string,
  now: Instant,
): AsyncGenerator<readonly string[]> {
  const header: Header = { curfew: 'export', format: FORMAT, version, exported_at: iso(now), counts: sizes }
  yield [`${JSON.stringify(header)}\n`]
  let records = 0
  for await (const lines of recordLines(store)) {
    records += lines.length
    if (lines.length > 0) yield lines
  }
  yield [`${JSON.stringify({ end: true, records } satisfies End)}\n`]
}

async function* recordLines(store: Store): AsyncGenerator<readonly string[]> {
  yield (await store.queues()).map((queue) => recordLine('queue', queue))
  yield (await store.types()).map((type) => recordLine('type', type))
  yield (await store.workers()).map((worker) => recordLine('worker', flatWorker(worker)))
  yield* pages(
    0,
    (after, limit) => store.noticesAfter(after, limit),
    ({ place }) => place,
    ({ workerId, notice }) => recordLine('notice', { workerId, ...notice }),
  )
  yield* pages(
    null as string | null,
    (after, limit) => store.jobsAfter(after, limit),
    ({ id }) => id,
    (job) => recordLine('job', job),
  )
  yield* pages(
    null as string | null,
    (after, limit) => store.checkpointsAfter(after, limit),
    ({ jobId }) => jobId,
    (checkpoint) => recordLine('checkpoint', checkpoint),
  )
  yield* pages(
    null as DocName | null,
    (after, limit) => store.docsAfter(after, limit),
    ({ kind, id }) => ({ kind, id }),
    (doc) => recordLine('doc', doc),
  )
  yield* pages(
    0,
    (after, limit) => store.tombstonesAfter(after, limit),
    ({ place }) => place,
    ({ id }) => recordLine('tombstone', { id }),
  )
  yield* pages(
    0,
    (after, limit) => store.eventsAfter(after, limit),
    ({ sequence }) => sequence,
    (event) => recordLine('event', event),
  )
  yield* pages(
    0,
    (after, limit) => store.inboxAfter(after, limit),
    ({ place }) => place,
    ({ place: _, ...entry }) => recordLine('inbox', entry),
  )
  yield* pages(
    0,
    (after, limit) => store.refusedAfter(after, limit),
    ({ place }) => place,
    ({ place: _, ...entry }) => recordLine('refused', entry),
  )
  yield [recordLine('life', await store.life())]
}

async function* pages<Row, Cursor>(
  first: Cursor,
  find: (after: Cursor, limit: number) => Promise<Row[]>,
  cursorOf: (row: Row) => Cursor,
  lineOf: (row: Row) => string,
): AsyncGenerator<readonly string[]> {
  let limit = FIRST_PAGE
  for (let after = first; ;) {
    const rows = await find(after, limit)
    const last = rows.at(-1)
    if (last === undefined) return
    const lines = rows.map(lineOf)
    yield lines
    after = cursorOf(last)
    const fitting = Math.floor((lines.length * PAGE_CHARACTERS) / lengthOf(lines))
    limit = Math.max(1, Math.min(fitting, limit * 2, MAX_PAGE))
  }
}

const lengthOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length, 0)

// ---- Where they go ----

interface Sink {
  write(lines: readonly string[]): Promise<void>
  end(): Promise<void>
  abandon(): Promise<void>
}

async function fileSink(file: string): Promise<Sink> {
  const unfinished = `${file}.unfinished`
  // The file holds the jobs of all users: only its owner may read it.
  const handle = await open(unfinished, 'w', 0o600)
  return {
    ...gathering(async (text) => {
      await handle.writeFile(text)
    }),
    async end() {
      await handle.sync()
      await handle.close()
      await rename(unfinished, file)
    },
    async abandon() {
      await handle.close().catch(() => {})
      await rm(unfinished, { force: true })
    },
  }
}

function stdoutSink(): Sink {
  process.stdout.on('error', () => {}) // the write that failed tells
  return {
    ...gathering(
      (text) =>
        new Promise((resolve, reject) => {
          process.stdout.write(text, (error) => {
            if (error === null || error === undefined) resolve()
            else reject(new Error('The reader of the output closed it.', { cause: error }))
          })
        }),
    ),
    end: () => Promise.resolve(),
    abandon: () => Promise.resolve(),
  }
}

/** Few large writes instead of many small ones, and none too large for a string. */
function gathering(write: (text: string) => Promise<void>): Pick<Sink, 'write'> {
  return {
    async write(lines) {
      let gathered: string[] = []
      let length = 0
      for (const line of lines) {
        gathered.push(line)
        length += line.length
        if (length < WRITE_CHARACTERS) continue
        await write(gathered.join(''))
        gathered = []
        length = 0
      }
      if (length > 0) await write(gathered.join(''))
    },
  }
}
