/** What the exit codes of `curfew journey …` mean, for scripts. */
export const EXIT = {
  /** Done; of a run: it succeeded. */
  fine: 0,
  /** The server refused or did not answer; a definition is not right. */
  refused: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The run failed, or was cancelled. */
  failed: 3,
  /** The run's time was up. */
  timedOut: 4,
  /** The run goes on. */
  running: 5,
} as const
