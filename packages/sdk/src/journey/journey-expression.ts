/** Expressions in a definition: text with the name of its engine. No engine is the default. */

/** Made by `jsonata`; goes onto the wire as `{lang, expr}`. */
export class ExpressionText {
  readonly lang: string
  readonly expr: string

  constructor(lang: string, expr: string) {
    this.lang = lang
    this.expr = expr
  }
}

/** One of the definition's `mappers`, by its id. */
export interface MapperRef {
  readonly mapperRef: string
}

export type Mapper = ExpressionText | MapperRef

/**
 * A JSONata expression. What is filled in becomes a literal: `jsonata\`context.tries < ${3}\``; a text is quoted, so
 * nothing that is filled in is ever read as code. Backslashes stand for themselves; lines lose what indents them all.
 */
export function jsonata(texts: TemplateStringsArray, ...values: readonly unknown[]): ExpressionText {
  const whole = texts.raw.map((text, index) => (index === 0 ? text : `${literal(values[index - 1])}${text}`)).join('')
  return new ExpressionText('jsonata', unindented(whole))
}

/** A mapper of the definition, wherever one may stand. */
export function mapperRef(id: string): MapperRef {
  return { mapperRef: id }
}

/** As `{mapper: {lang, expr}}` or `{mapperRef}`. */
export function mapperOnWire(mapper: Mapper): Readonly<Record<string, unknown>> {
  return 'mapperRef' in mapper ? { mapperRef: mapper.mapperRef } : { mapper: expressionOnWire(mapper) }
}

export function expressionOnWire({ lang, expr }: ExpressionText): Readonly<Record<string, string>> {
  return { lang, expr }
}

/** JSON is JSONata: every value of it means itself. */
const literal = (value: unknown): string => JSON.stringify(value) ?? 'null'

function unindented(text: string): string {
  const lines = text.split('\n')
  const indents = lines.slice(1).filter((line) => line.trim() !== '')
  const common = Math.min(...indents.map((line) => line.length - line.trimStart().length))
  return [lines[0], ...lines.slice(1).map((line) => line.slice(common))].join('\n').trim()
}
