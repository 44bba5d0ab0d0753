/**
 * The types that a package shows to others, as one text: every exported name and every declaration of ours that it leads to,
 * in the order of the alphabet. It is made of the emitted declarations and names no file, so that moving code changes
 * nothing and changing a type does. Comments are left out.
 */
import ts from 'typescript'

export function publicTypes(entry: string, isOurs: (file: string) => boolean): string {
  const program = ts.createProgram([entry], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    skipLibCheck: true,
    types: [],
  })
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(entry)
  const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
  if (module === undefined) throw new Error(`${entry} is not built`)
  const printer = ts.createPrinter({ removeComments: true })
  const resolved = (symbol: ts.Symbol): ts.Symbol =>
    (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol)

  const texts = new Map<ts.Symbol, { readonly name: string; readonly text: string }>()
  const unread: ts.Symbol[] = []
  const meet = (symbol: ts.Symbol | undefined): void => {
    if (symbol !== undefined) unread.push(resolved(symbol))
  }
  const read = (symbol: ts.Symbol): void => {
    const own = (symbol.declarations ?? []).filter((node) => isTopLevel(node) && isOurs(node.getSourceFile().fileName))
    if (own.length === 0 || texts.has(symbol)) return
    const written = own.map((node) => {
      const file = node.getSourceFile()
      const text = printer.printNode(ts.EmitHint.Unspecified, statementOf(node), file)
      return text.replaceAll(/import\("[^"]*"\)/g, 'import(…)').replaceAll(/^(export |declare )+/gm, '')
    })
    texts.set(symbol, { name: symbol.name, text: written.sort().join('\n') })
    const visit = (node: ts.Node): void => {
      if (ts.isIdentifier(node)) meet(checker.getSymbolAtLocation(node))
      ts.forEachChild(node, visit)
    }
    for (const node of own) visit(statementOf(node))
  }
  const names = checker.getExportsOfModule(module).map((symbol) => {
    meet(symbol)
    const { name } = resolved(symbol)
    return name === symbol.name ? name : `${symbol.name} = ${name}`
  })
  for (let symbol = unread.pop(); symbol !== undefined; symbol = unread.pop()) read(symbol)
  const declarations = [...texts.values()].sort((a, b) => compare(a.name, b.name) || compare(a.text, b.text))
  const exported = names.sort(compare).map((name) => `export ${name}`)
  return `${[exported.join('\n'), ...declarations.map(({ text }) => text)].join('\n\n')}\n`
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const isTopLevel = (node: ts.Node): boolean => ts.isSourceFile(statementOf(node).parent)

/** `const` declarations stand two levels below their statement. */
const statementOf = (node: ts.Node): ts.Node => (ts.isVariableDeclaration(node) ? node.parent.parent : node)
