/**
 * What a client sent lies in the row of its job, as long as it is small: one row is written and found instead of two.
 * What is large stays in `bodies`, so that a job that moves on does not carry it along; there it is null here. So it is
 * for every job that was there before.
 */
export const bodiesInside = `
ALTER TABLE jobs ADD COLUMN body TEXT;   -- inside of a JSON object
`
