/**
 * Long answers are sent in pieces. Encoding and sending ten megabytes at once blocks the event loop for tens of milliseconds;
 * between pieces, which wait for the reader, other calls are served.
 */

/** Answers with more characters than this are sent in pieces. */
export const MAX_AT_ONCE = 256 * 1024

/** The text in order. No piece ends within a pair of surrogates: each is encoded by itself. */
export function* piecesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length;) {
    let to = Math.min(text.length, from + MAX_AT_ONCE)
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1
    yield text.slice(from, to)
    from = to
  }
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
