/**
 * The text of a run with many branches, made in pieces. A frame never changes, and one step of a wide run changes few of
 * its frames. So the text is kept in chunks, by the frames they were made of, and only chunks with a frame that is
 * another one by now are made again. The text says what `JSON.stringify` says, with `trail` and `root` as its last members.
 */
import type { LongText } from '../../doc.ts'
import type { Frame, Run, Visit } from './run.ts'
import { surveyOf } from './survey.ts'

/** Runs with fewer branches, and fewer visits in their trail, are written at once. */
const SHORT = 256
/** Entries of a chunk. */
const CHUNK = 32
/** After so many characters of new text others have their turn. */
const CHARACTERS_PER_TURN = 65_536

export const isLong = ({ root, trail }: Run): boolean => trail.length > SHORT || surveyOf(root).width > SHORT

interface Chunk {
  readonly entries: readonly unknown[]
  readonly text: string
  /** What is kept of entries that have branches themselves. */
  readonly inner: readonly (Chunks | null)[]
}

/** By their place: that of the branch, or the number of the visit. */
type Chunks = ReadonlyMap<number, Chunk>

interface Written {
  readonly text: string
  readonly chunks: Chunks | null
}

export class RunText implements LongText<Run> {
  #frames: Chunks | null = null
  #trail: Chunks | null = null
  /** Characters since others had their turn. */
  #made = 0;

  *of(run: Run): Generator<void, string> {
    const { root, trail, ...head } = run
    this.#made = 0
    const frames = yield* this.#frame(root, this.#frames)
    const visits = yield* this.#chunked(trail, this.#trail, placeOfVisit, (visit) => this.#plain(visit))
    this.#frames = frames.chunks
    this.#trail = visits.chunks
    return `${unclosed(JSON.stringify(head))},"trail":[${visits.text}],"root":${frames.text}}`
  }

  *#frame(frame: Frame, before: Chunks | null): Generator<void, Written> {
    const { rest, ...head } = frame
    if (rest.kind !== 'inside' && rest.kind !== 'forked') return { text: this.#plain(frame), chunks: null }
    const opened = `${unclosed(this.#plain(head))},"rest":{"kind":"${rest.kind}"`
    if (rest.kind === 'inside') {
      const { text, chunks } = yield* this.#frame(rest.frame, before)
      return { text: `${opened},"frame":${text}}}`, chunks }
    }
    let names: readonly string[] | null = null
    const nameOf = (index: number): string => (names ??= Object.keys(rest.frames))[index] ?? ''
    const { text, chunks } = yield* this.#chunked(
      Object.values(rest.frames),
      before,
      (_, index) => index,
      (branch, index, kept) => this.#branch(nameOf(index), branch, kept),
    )
    return { text: `${opened},"frames":{${text}}}}`, chunks }
  }

  #branch(name: string, branch: Frame, before: Chunks | null): string | Generator<void, Written> {
    const { kind } = branch.rest
    const key = JSON.stringify(name)
    return kind === 'forked' || kind === 'inside' ? this.#deep(key, branch, before) : `${key}:${this.#plain(branch)}`
  }

  *#deep(key: string, branch: Frame, before: Chunks | null): Generator<void, Written> {
    const { text, chunks } = yield* this.#frame(branch, before)
    return { text: `${key}:${text}`, chunks }
  }

  *#chunked<T>(
    entries: readonly T[],
    before: Chunks | null,
    placeOf: (entry: T, index: number) => number,
    write: (entry: T, index: number, kept: Chunks | null) => string | Generator<void, Written>,
  ): Generator<void, Written & { readonly chunks: Chunks }> {
    const chunks = new Map<number, Chunk>()
    const all: string[] = []
    for (let from = 0; from < entries.length;) {
      const place = chunkAt(entries, from, placeOf)
      let to = from + 1
      while (to < entries.length && chunkAt(entries, to, placeOf) === place) to += 1
      const some = entries.slice(from, to)
      const kept = before?.get(place)
      let chunk = kept !== undefined && areSame(kept.entries, some) ? kept : null
      if (chunk === null) {
        const texts: string[] = []
        const inner: (Chunks | null)[] = []
        for (const [index, entry] of some.entries()) {
          const written = write(entry, from + index, kept?.inner[index] ?? null)
          const { text, chunks: within } =
            typeof written === 'string' ? { text: written, chunks: null } : yield* written
          texts.push(text)
          inner.push(within)
          if (this.#made < CHARACTERS_PER_TURN) continue
          this.#made = 0
          yield
        }
        chunk = { entries: some, text: texts.join(','), inner }
      }
      chunks.set(place, chunk)
      all.push(chunk.text)
      from = to
    }
    return { text: all.join(','), chunks }
  }

  #plain(value: unknown): string {
    const text = JSON.stringify(value)
    this.#made += text.length
    return text
  }
}

/** Of a trail the oldest visits are forgotten one by one: by their numbers the others stay where they are. */
const placeOfVisit = ({ visit }: Visit): number => visit

function chunkAt<T>(entries: readonly T[], index: number, placeOf: (entry: T, index: number) => number): number {
  const entry = entries[index]
  return entry === undefined ? -1 : Math.floor(placeOf(entry, index) / CHUNK)
}

const unclosed = (text: string): string => text.slice(0, -1)

const areSame = (some: readonly unknown[], others: readonly unknown[]): boolean =>
  some.length === others.length && some.every((one, index) => one === others[index])
