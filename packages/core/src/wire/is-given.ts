/** `null` counts as absent in every request. */
export const isGiven = (value: unknown): boolean => value !== undefined && value !== null
