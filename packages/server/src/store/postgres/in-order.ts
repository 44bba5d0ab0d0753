/** Rows in the order in which they were asked for. */

/** In the order of asking, each once. */
export function inOrder<Row>(keys: readonly string[], rows: Row[], keyOf: (row: Row) => string): Row[] {
  return rows.length < 2 ? rows : ofThese(keys, rows, keyOf)
}

/** The same, of rows among which there may be others. */
export function ofThese<Row>(keys: readonly string[], rows: readonly Row[], keyOf: (row: Row) => string): Row[] {
  const found = new Map(rows.map((row) => [keyOf(row), row]))
  return [...new Set(keys)].map((key) => found.get(key)).filter((row) => row !== undefined)
}
