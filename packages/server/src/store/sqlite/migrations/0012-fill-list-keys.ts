/**
 * Fills in what jobs are listed by, for the jobs that are there, from what is stored of them as JSON. In pieces, each in a
 * transaction of its own: if it is interrupted, it begins anew, and changes nothing that is already as it should be.
 */
import type { Database } from 'better-sqlite3'
import { errorKeys, lastWorker, tagKeys, type Closer } from '@curfew/core'
import { exact } from '../rows.ts'

const PIECE = 1_000

type Row = readonly [
  place: number,
  id: string,
  error: string | null,
  closedBy: string | null,
  lease: number,
  life: string,
  body: string,
  holder: string | null,
  active: number,
]

export function fillListKeys(db: Database): void {
  const find = db
    .prepare<[number], Row>(
      `
SELECT j.place, j.id, j.error, j.closed_by, j.lease, j.life, coalesce(j.body, b.body, ''), j.worker_id, j.state = 'active'
FROM jobs j LEFT JOIN bodies b ON b.place = j.place
WHERE j.place > ?
ORDER BY j.place
LIMIT ${String(PIECE)}`,
    )
    .raw()
  const update = db.prepare('UPDATE jobs SET error_type = ?, timeout_kind = ?, worker_id = ? WHERE place = ?')
  const insertTag = db.prepare('INSERT OR IGNORE INTO tags (tag, id, place) VALUES (?, ?, ?)')
  const fill = (row: Row): void => {
    const [place, id, error, closedBy, lease, life, body, holder, isActive] = row
    const { type, kind } = errorKeys({ error })
    const closer = closedBy === null ? null : (JSON.parse(closedBy) as Closer)
    const last = isActive === 1 ? null : lastWorker({ hold: null, closedBy: closer, lease, life })
    const worker = isActive === 1 ? holder : last === null ? null : exact(last)
    if (type !== null || worker !== holder) update.run(type === null ? null : exact(type), kind, worker, place)
    for (const tag of tagKeys({ body })) insertTag.run(exact(tag), id, place)
  }
  const fillPiece = db.transaction((rows: readonly Row[]) => {
    for (const row of rows) fill(row)
  })
  for (let rows = find.all(0); rows.length > 0; rows = find.all(rows.at(-1)?.[0] ?? 0)) fillPiece.immediate(rows)
}
