/** Where the SDK says what it noticed. Job data never goes into it. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Warnings and errors go to stderr, one line each. */
export const stderrLog: Log = {
  debug: () => {},
  info: () => {},
  warn: (fields, message) => {
    say('warn', fields, message)
  },
  error: (fields, message) => {
    say('error', fields, message)
  },
}

function say(level: string, fields: object, message: string): void {
  process.stderr.write(`curfew ${level}: ${message} ${JSON.stringify(fields)}\n`)
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
