/** Texts that many jobs share. */

export const ALL_TEXTS = `
-- Finds the texts that rows have in common.
SELECT place, text FROM texts`

export const INSERT_TEXT = `
-- Adds a text that rows have in common.
INSERT INTO texts (place, text) VALUES (?, ?)`
