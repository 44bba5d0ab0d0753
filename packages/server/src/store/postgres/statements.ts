/**
 * Every statement, whole, ready to paste into psql (with the search path set to the schema). None asks for the time to
 * decide, adds to an instant, or chooses a state. Lists of rows come as one array per column, so that each kind of
 * change is one statement, however many rows it has.
 *
 * What is found by name is locked in the order of the ids; what is found by its order skips what others have locked. The
 * statements of a transaction are planned once, and never by a scan of a table (`connection.ts`; a test looks at the
 * plans).
 *
 * Trap: `j.*` is read by position, and a column that a later version adds comes last, where no reader looks.
 */
export * from './statements/transaction.ts'
export * from './statements/find-jobs.ts'
export * from './statements/write-jobs.ts'
export * from './statements/list-jobs.ts'
export * from './statements/counts.ts'
export * from './statements/checkpoints.ts'
export * from './statements/workers.ts'
export * from './statements/documents.ts'
export * from './statements/queues.ts'
export * from './statements/events.ts'
export * from './statements/texts.ts'
export * from './statements/inbox.ts'
export * from './statements/life.ts'
