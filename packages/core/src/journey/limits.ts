/**
 * What bounds a run besides its time, in one place. A run that goes beyond one of them ends with a fault that names it
 * (journey/faults.ts); docs/journeys.md lists them under "Limits of a run".
 */

/** Branches of one parallel state, and branches that a run has open side by side in all. */
export const MAX_BRANCHES = 5_000
/** States that a run enters in all. */
export const MAX_STEPS = 1_000_000
/** States that one way through a definition enters without waiting for anything: a loop that turns without rest. */
export const MAX_STEPS_WITHOUT_REST = 10_000
/** Characters of what a run remembers, as JSON. A run is written whole with each save. */
export const MAX_RUN_SIZE = 4_194_304
/** How many states a run enters per second; each of its branches adds to it. */
export const STEPS_PER_SECOND = 1_000
export const STEPS_PER_SECOND_AND_BRANCH = 20

/**
 * A walk is saved after so many states, and one more for each branch of the run. A save costs as much as the run has
 * branches, so the cost of saving stays in proportion to the states that were entered.
 */
export const STEPS_PER_SAVE = 64
/** A walk lets others have a turn after so many states, or after having passed so many branches that rest. */
export const STEPS_PER_TURN = 32
export const PASSED_PER_TURN = 1_024

/** States per second for a run with so many branches. */
export const stepRate = (branches: number): number => STEPS_PER_SECOND + STEPS_PER_SECOND_AND_BRANCH * branches
