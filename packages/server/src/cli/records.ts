/**
 * The lines of an export. Each is a JSON object with one key that says what it is:
 *
 *   {"curfew":"export","format":1,…}   the header
 *   {"job":{…}} {"event":{…}} …        a record, field by field as the store's port has it
 *   {"end":true,"records":n}           the last line: without it the file is incomplete
 *
 * What a client sent stays the JSON text that it is, as a string, so nothing of it is ever written anew. A line that is
 * read back must have every field and no other, because what is imported is believed from then on (record-kinds.ts). (A
 * format that differs gets the next number.)
 */
import type { Beat, Job, Worker } from '@curfew/core'
import type { Batch, Life } from '../store/store.ts'
import { BadRecord, isObject } from './record-checks.ts'
import {
  CHECKS,
  END,
  HEADER,
  type End,
  type Flat,
  type FlatBeat,
  type FlatWorker,
  type Header,
  type Kind,
} from './record-kinds.ts'

export const FORMAT = 2

// ---- Writing ----

export function recordLine<K extends Kind>(kind: K, record: Flat[K]): string {
  return `{"${kind}":${JSON.stringify(record)}}\n`
}

export function flatWorker(worker: Worker): FlatWorker {
  const { beat } = worker
  if (beat === null) return { ...worker, beat }
  const { jobs, proofs } = beat
  return { ...worker, beat: { ...beat, jobs: [...jobs], proofs: proofs === null ? null : [...proofs] } }
}

// ---- Reading ----

/** A batch that is being filled. */
export type Filling = { -readonly [K in keyof Omit<Batch, 'life'>]: Batch[K][number][] } & { life: Life | null }

export type Line =
  { readonly end: End } | { readonly addTo: (batch: Filling) => void; readonly sequence: number | null }

export function readHeader(text: string): Header {
  const value = parsed(text)
  if (!isObject(value) || value['curfew'] !== 'export') throw new BadRecord('not an export of Curfew')
  if (typeof value['format'] === 'number' && value['format'] > FORMAT) {
    throw new BadRecord(
      `it is written in format ${String(value['format'])} by Curfew ${JSON.stringify(value['version'])}; ` +
        `this program reads formats up to ${String(FORMAT)}`,
    )
  }
  HEADER(value, '')
  return value as unknown as Header
}

export function readLine(text: string): Line {
  const value = parsed(text)
  if (!isObject(value)) throw new BadRecord('a record must be a JSON object')
  if ('end' in value) {
    END(value, '')
    return { end: value as unknown as End }
  }
  const [kind, ...others] = Object.keys(value)
  if (kind === undefined || others.length > 0) throw new BadRecord('a record must have exactly one key, its kind')
  if (!Object.hasOwn(CHECKS, kind)) throw new BadRecord(`unknown kind of record ${JSON.stringify(kind)}`)
  return checked(kind as Kind, value[kind])
}

function checked(kind: Kind, value: unknown): Line {
  CHECKS[kind](value, kind)
  const record = { [kind]: value } as unknown as Flat
  return {
    addTo: (batch) => {
      ADD[kind](batch, record)
    },
    sequence: kind === 'event' ? record.event.sequence : null,
  }
}

const ADD: { readonly [K in Kind]: (batch: Filling, flat: Pick<Flat, K>) => void } = {
  queue: ({ queues }, { queue }) => queues.push(queue),
  type: ({ types }, { type }) => types.push(type),
  worker: ({ workers }, { worker }) =>
    workers.push({ ...worker, beat: worker.beat === null ? null : beatOf(worker.beat) }),
  notice: ({ notices }, { notice: { workerId, ...notice } }) => notices.push({ workerId, notice }),
  job: ({ jobs }, { job }) => jobs.push({ ...UNTIED, ...job }),
  checkpoint: ({ checkpoints }, { checkpoint }) => checkpoints.push(checkpoint),
  doc: ({ docs }, { doc }) => docs.push(doc),
  tombstone: ({ tombstones }, { tombstone }) => tombstones.push(tombstone.id),
  event: ({ events }, { event }) => events.push(event),
  inbox: (batch, { inbox }) => batch.inbox.push(inbox),
  refused: (batch, { refused }) => batch.refused.push(refused),
  life: (batch, { life }) => (batch.life = life),
}

/** What exports of format 1 do not know of a job: it had none of it. */
const UNTIED: Pick<Job, 'owner' | 'uniqueKey' | 'limitKey' | 'tenant'> = {
  owner: null,
  uniqueKey: null,
  limitKey: null,
  tenant: null,
}

function beatOf(beat: FlatBeat): Beat {
  return { ...beat, jobs: new Set(beat.jobs), proofs: beat.proofs === null ? null : new Set(beat.proofs) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BadRecord('not valid JSON')
  }
}
