/** How many slips of the pen lie between two words. */

/** A short name is soon another word. */
export function slipsAllowed({ length }: string): number {
  return length < 4 ? 0 : length < 11 ? 1 : 2
}

/** Letters added, left out, exchanged or swapped with their neighbour; Infinity when there are more than `most`. */
export function slipsBetween(word: string, name: string, most: number): number {
  if (Math.abs(word.length - name.length) > most) return Infinity
  // What both begin and end with has no slips; the sum is only made for what lies between.
  let [from, toWord, toName] = [0, word.length, name.length]
  while (from < toWord && from < toName && word[from] === name[from]) from += 1
  while (toWord > from && toName > from && word[toWord - 1] === name[toName - 1])
    [toWord, toName] = [toWord - 1, toName - 1]
  const [a, b] = [word.slice(from, toWord), name.slice(from, toName)]
  if (most === 1 && Math.max(a.length, b.length) > 2) return Infinity
  const slips = distance(a, b, most)
  return slips <= most ? slips : Infinity
}

/** Infinity as soon as it is certain that it is more than `most`. */
function distance(a: string, b: string, most: number): number {
  let [before, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, index) => index)]
  let leastOfLast = 0
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    let leastOfRow = i
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1]
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1)
      row.push(least)
      if (least < leastOfRow) leastOfRow = least
    }
    // All that follows is made of these two rows, and never less.
    if (leastOfLast > most && leastOfRow > most) return Infinity
    ;[before, last, leastOfLast] = [last, row, leastOfRow]
  }
  return last[b.length] ?? Infinity
}
