/** The name of a database that is in no file. */
export const IN_MEMORY = ':memory:'
