/**
 * Every statement, whole, ready to paste into a console. None asks for the time, adds to one, or chooses a state.
 *
 * "Locks" here means nothing by itself: writing happens in one `BEGIN IMMEDIATE` at a time, so whatever a transaction
 * finds stays as it is until it ends. The indexes of the paths that must not slow down with the depth of a queue are
 * named (`INDEXED BY`): should one ever not fit its query, the store refuses to open rather than scan.
 *
 * Trap: it is `LIMIT +?`, not `LIMIT ?`. SQLite looks at a bare parameter there while planning, and so would plan the
 * statement anew at each execution, which costs more than finding fifty jobs.
 */
export * from './statements/find-jobs.ts'
export * from './statements/write-jobs.ts'
export * from './statements/list-jobs.ts'
export * from './statements/counts.ts'
export * from './statements/checkpoints.ts'
export * from './statements/documents.ts'
export * from './statements/workers.ts'
export * from './statements/queues.ts'
export * from './statements/events.ts'
export * from './statements/texts.ts'
export * from './statements/meta.ts'
