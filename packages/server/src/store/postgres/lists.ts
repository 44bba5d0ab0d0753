/**
 * Lists as parameters. A list whose type the statement names (`$3::bigint[]`) travels in binary: its elements are written
 * as they are. As text, every quote in their JSON would get a backslash here, which the database takes away again. Short
 * lists, and those whose type is not named, are text in PostgreSQL's own writing.
 */

/** A type of elements: its number in the database, and how many bytes an element has (null: as many as its text). */
export interface ElementType {
  readonly oid: number
  readonly bytes: number | null
}

const TYPES: Readonly<Record<string, ElementType>> = {
  boolean: { oid: 16, bytes: 1 },
  bigint: { oid: 20, bytes: 8 },
  integer: { oid: 23, bytes: 4 },
  text: { oid: 25, bytes: null },
  'double precision': { oid: 701, bytes: 8 },
}

/** The types of the lists that a statement takes, by the place of the parameter; undefined: none, or not named. */
export type ListTypes = readonly (ElementType | undefined)[]

export function listTypesOf(statement: string): ListTypes {
  const types: (ElementType | undefined)[] = []
  for (const [, place, name = ''] of statement.matchAll(/\$(\d+)::(text|bigint|integer|boolean|double precision)\[\]/g))
    types[Number(place) - 1] = TYPES[name]
  return types
}

/** The head of a list in binary has 20 bytes: few elements are shorter as text. */
const FEW = 4

/** As what a parameter travels in binary, if it does. */
export function binaryType(value: unknown, type: ElementType | undefined): ElementType | undefined {
  return value instanceof ColumnList && value.length >= FEW ? type : undefined
}

export type Element = string | number | boolean | null | undefined

/** One column of rows. */
export class ColumnList {
  readonly #rows: readonly (readonly unknown[])[]
  readonly #column: number

  constructor(rows: readonly (readonly unknown[])[], column: number) {
    this.#rows = rows
    this.#column = column
  }

  get length(): number {
    return this.#rows.length
  }

  at(index: number): Element {
    return this.#rows[index]?.[this.#column] as Element
  }

  /** As text, for a parameter whose type is not named. */
  toString(): string {
    const elements: string[] = []
    for (let index = 0; index < this.length; index++) elements.push(elementText(this.at(index)))
    return `{${elements.join()}}`
  }
}

export function elementText(value: Element): string {
  if (value === null || value === undefined) return 'NULL'
  if (typeof value !== 'string') return String(value)
  return /["\\]/.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : `"${value}"`
}
