/**
 * Blanks the values of members by their names, in JSON as it is written: numbers and escapes of everything else stay as they
 * are. Works on text that comes in parts, and on several values one after the other, as in a stream of events; what is
 * not JSON between them is passed on.
 */
export const REDACTED = '[redacted]'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

export class Redaction {
  readonly #names: ReadonlySet<string>

  /** Names of members; capitals do not matter. */
  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()))
  }

  /** For one text that comes in parts. */
  begin(): RedactingText {
    return new RedactingText(this.#names)
  }

  text(json: string): string {
    return this.begin().next(json)
  }
}

/** Where in the text the next part begins. */
type Within =
  | 'plain'
  | 'string'
  | 'key'
  /** A value that is left out: before it, within it, and within a string of it. */
  | 'before'
  | 'left out'
  | 'left out string'

export class RedactingText {
  readonly #names: ReadonlySet<string>
  /** Of the containers around: whether each is an object. */
  readonly #around: boolean[] = []
  #within: Within = 'plain'
  #isEscaped = false
  #expectsKey = false
  #isMeant = false
  #key = ''
  /** How deep in the value that is left out. */
  #depth = 0

  constructor(names: ReadonlySet<string>) {
    this.#names = names
  }

  next(part: string): string {
    let out = ''
    let from = 0
    for (let at = 0; at < part.length; at += 1) {
      const code = part.charCodeAt(at)
      switch (this.#within) {
        case 'plain':
          this.#plain(code)
          continue
        case 'string':
          if (this.#endsString(code)) this.#within = 'plain'
          continue
        case 'key':
          this.#key += part[at] ?? ''
          if (this.#endsString(code)) this.#keyEnds()
          continue
        case 'before':
          if (isSpace(code)) continue
          out += `${part.slice(from, at)}"${REDACTED}"`
          this.#depth = 0
          this.#within = 'left out'
          break
        case 'left out':
        case 'left out string':
      }
      if (this.#leavesOut(code)) {
        from = at
        this.#plain(code)
      } else from = at + 1
    }
    return this.#within.startsWith('left out') ? out : out + part.slice(from)
  }

  #plain(code: number): void {
    if (code === QUOTE) {
      this.#within = this.#expectsKey ? 'key' : 'string'
      this.#key = ''
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      this.#expectsKey = code === OPEN_OBJECT
      this.#around.push(this.#expectsKey)
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      this.#around.pop()
      this.#expectsKey = false
    } else if (code === COMMA) this.#expectsKey = this.#around.at(-1) === true
    else if (code === COLON && this.#isMeant) {
      this.#isMeant = false
      this.#within = 'before'
    }
  }

  #keyEnds(): void {
    this.#within = 'plain'
    this.#expectsKey = false
    this.#isMeant = this.#names.has((JSON.parse(`"${this.#key}`) as string).toLowerCase())
  }

  /** Whether the value that is left out ended before this sign, which is kept. */
  #leavesOut(code: number): boolean {
    if (this.#within === 'left out string') {
      if (this.#endsString(code)) this.#within = 'left out'
      return false
    }
    if (code === QUOTE) this.#within = 'left out string'
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.#depth += 1
    else if (this.#depth === 0 && (code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || isSpace(code))) {
      this.#within = 'plain'
      return true
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.#depth -= 1
    return false
  }

  #endsString(code: number): boolean {
    if (this.#isEscaped) this.#isEscaped = false
    else if (code === BACKSLASH) this.#isEscaped = true
    else return code === QUOTE
    return false
  }
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
