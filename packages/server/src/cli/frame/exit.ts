/** What the exit codes of `curfew` mean, for scripts. */
export const EXIT = {
  /** Done; of a job or run: it succeeded. */
  fine: 0,
  /** The server refused or did not answer; a definition is not right. */
  refused: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The job or run failed, or was cancelled. */
  failed: 3,
  /** The time of the job or run was up. */
  timedOut: 4,
  /** The job or run goes on. */
  running: 5,
  /** A check found something that needs a look. */
  findings: 6,
  /** Ctrl-C. */
  interrupted: 130,
} as const

export type Exit = (typeof EXIT)[keyof typeof EXIT]

export const EXIT_WORDS: Readonly<Record<Exit, string>> = {
  0: 'done',
  1: 'refused or no answer',
  2: 'wrong usage',
  3: 'it failed or was cancelled',
  4: 'its time was up',
  5: 'it goes on',
  6: 'something was found',
  130: 'interrupted',
}
