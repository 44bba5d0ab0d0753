/** Expressions at random, mean ones among them: nested functions of everything, doubling, regular expressions, pictures. */
import fc from 'fast-check'
import { FUNCTIONS } from './natives.ts'

const names = fc.constantFrom(
  'context',
  'items',
  'price',
  'name',
  'a',
  'b',
  'missing',
  '__proto__',
  'constructor',
  'then',
)
const variables = fc.constantFrom('$x', '$y', '$f', '$g', '$', '$$')
const literals = fc.oneof(
  fc.constantFrom('0', '1', '-1', '3.5', '1e300', '9999', 'true', 'false', 'null', '"a"', '"then"', '""', '"1,2;3"'),
  fc.constantFrom('"😀x"', '"2020-01-01T00:00:00"', '"[Y0001]-[M01]"', '"#,##0.00"', '"[f][f]"', '"$0$1$$"', '"  x  "'),
  fc.string({ maxLength: 8 }).map((text) => JSON.stringify(text)),
)
const patterns = fc.constantFrom(
  '/a/',
  '/(a+)+$/',
  '/[a-z]*/i',
  '/(x)|(y)?/m',
  '/\\d{2,30}/',
  '/^$/',
  '/./',
  '/(a|aa)+b/',
)
const lists = fc.constantFrom('[1..300]', '[1..10000]', '[]', '[[],[[]]]', '[1,"a",null]', '[3,1,2]', '["b","a"]')
const functions = fc.constantFrom(...FUNCTIONS.filter((name) => name !== 'eval').map((name) => `$${name}`))

export const expressions: fc.Arbitrary<string> = fc.letrec<{ any: string; call: string; body: string }>((tie) => {
  const any = tie('any')
  const operators = fc.constantFrom(
    '+',
    '-',
    '*',
    '/',
    '%',
    '&',
    '=',
    '!=',
    '<',
    '<=',
    'and',
    'or',
    'in',
    '~>',
    '?:',
    '??',
  )
  const args = fc
    .array(fc.oneof(any, patterns, functions, tie('body')), { maxLength: 4 })
    .map((list) => list.join(', '))
  const pair = fc.tuple(any, any).map(([key, value]) => `$string(${key}): ${value}`)
  return {
    call: fc.tuple(functions, args).map(([name, given]) => `${name}(${given})`),
    body: fc.oneof(
      any.map((body) => `function($x, $y){ ${body} }`),
      any.map((body) => `function($x)<x-:x>{ ${body} }`),
      fc.constantFrom('function($x){ [$x, $x] }', 'function($x, $y){ $append($x, $x) }', 'function($x){ $x & $x }'),
    ),
    any: fc.oneof(
      { maxDepth: 5, depthSize: 'medium' },
      literals,
      names,
      variables,
      lists,
      fc.constantFrom(
        '**',
        '*',
        'context.items.price',
        'context.items',
        '$$.context',
        'items.%.name',
        '$map',
        '$now()',
      ),
      tie('call'),
      tie('call'),
      fc.tuple(any, operators, any).map(([left, operator, right]) => `(${left} ${operator} ${right})`),
      fc.tuple(any, any).map(([left, right]) => `${left}.(${right})`),
      fc.tuple(any, any).map(([left, right]) => `${left}[${right}]`),
      fc.tuple(any, any).map(([left, right]) => `${left}^(${right})`),
      fc.tuple(names, any).map(([left, right]) => `${left}@$x.(${right})`),
      fc.tuple(names, any).map(([left, right]) => `${left}#$y.(${right})`),
      fc.tuple(any, pair).map(([left, members]) => `${left}{${members}}`),
      fc.array(any, { maxLength: 4 }).map((items) => `[${items.join(', ')}]`),
      fc.array(pair, { maxLength: 3 }).map((members) => `{${members.join(', ')}}`),
      fc.tuple(any, any, any).map(([test, yes, no]) => `(${test} ? ${yes} : ${no})`),
      fc.tuple(any, any).map(([value, body]) => `($x := ${value}; $y := $x; ${body})`),
      fc.tuple(tie('body'), any).map(([f, body]) => `($f := ${f}; $g := function($x){ $f($g($x)) }; ${body})`),
      fc
        .tuple(any, fc.nat(30))
        .map(
          ([value, times]) =>
            `($f := function($x, $y){ $y = 0 ? $x : $f([$x, $x], $y - 1) }; $f(${value}, ${String(times)}))`,
        ),
      fc
        .tuple(any, fc.nat(30))
        .map(
          ([value, times]) =>
            `($f := function($x, $y){ $y = 0 ? $x : $f($x & $x, $y - 1) }; $f(${value}, ${String(times)}))`,
        ),
      fc.tuple(any, any, any).map(([value, pattern, update]) => `(${value} ~> |${pattern}|{"a": ${update}}|)`),
      fc.tuple(tie('body'), args).map(([f, given]) => `(${f})(${given})`),
      fc.tuple(functions, any).map(([f, value]) => `${f}(?, ${value})`),
    ),
  }
}).any

export const documents: fc.Arbitrary<unknown> = fc.record({
  context: fc.record(
    {
      items: fc.array(
        fc.record({ name: fc.string(), price: fc.integer(), items: fc.array(fc.integer(), { maxLength: 3 }) }),
      ),
      a: fc.jsonValue(),
      b: fc.oneof(fc.string({ maxLength: 2_000 }), fc.constant('a'.repeat(100_000))),
      name: fc.string(),
    },
    { requiredKeys: [] },
  ),
  payload: fc.jsonValue({ maxDepth: 3 }),
})
