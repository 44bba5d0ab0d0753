/**
 * Expressions that want to take the server with them. Each has ended a process, blocked it for seconds, reached what it
 * should not, or would have, with JSONata as it comes; each must end with the code beside it, or with the harmless value.
 */
import type { ExpressionErrorCode } from '../engine/expressions.ts'

export interface Hostile {
  readonly name: string
  readonly text: string
  /** How it ends where time stands still, and only work and sizes are limited. */
  readonly ends: ExpressionErrorCode | { readonly value: unknown }
}

const TIME = 'JN_MAX_EVAL_TIME_EXCEEDED'
const SIZE = 'JN_MAX_RESULT_SIZE_EXCEEDED'
const TYPE = 'JN_TYPE_MISMATCH'
const SYNTAX = 'JN_UNSUPPORTED_SYNTAX'
const PARSE = 'JN_PARSE_ERROR'
const FUNCTION = 'JN_FUNCTION_ERROR'

const entry = (name: string, text: string, ends: Hostile['ends']): Hostile => ({ name, text, ends })

const X60 = '"' + 'x'.repeat(60) + '"'

/** Those everybody thinks of first. The one in a thread is the same text, evaluated in one. */
export const THIRTEEN: readonly Hostile[] = [
  entry('endless tail recursion', '($f := function($n){ $f($n + 1) }; $f(0))', TIME),
  entry('endless deep recursion', '($f := function($n){ 1 + $f($n + 1) }; $f(0))', TIME),
  entry('a range of ten million', '$sum([0..9999999])', SIZE),
  entry('a regular expression that backtracks', `$match("${'a'.repeat(40)}!", /^(a+)+$/)`, { value: null }),
  entry('a pad of 300 million characters', '$length($pad("x", 300000000))', SIZE),
  entry(
    'a string doubled 25 times',
    `($d := function($s, $n){ $n = 0 ? $s : $d($s & $s, $n - 1) }; $length($d(${X60}, 25)))`,
    SIZE,
  ),
  entry('the pad of 300 million characters, in a thread', '$length($pad("x", 300000000))', SIZE),
  entry('sorting ten thousand', '$sort([1..10000].($ * 7919 % 10007), function($a, $b){ $a > $b })', TIME),
  entry(
    'ten thousand times ten thousand',
    '$map([1..10000], function($x){ $map([1..10000], function($y){ $x * $y }) })',
    TIME,
  ),
  entry('a join of everything', `$join($map([1..10000], function($x){ ${X60} }), ${X60})`, SIZE),
  entry('a cartesian product', '[1..1000].([1..1000].(1))', TIME),
  entry(
    'reaching the constructor',
    '[constructor, __proto__, context.constructor, $lookup($$, "__proto__"), toString.constructor]',
    { value: [] },
  ),
  entry(
    'rebinding the hooks of the guard',
    '($`jsonata.__evaluate_entry` := 1; $x := function(){ $x() }; $x())',
    PARSE,
  ),
]

const shared = (last: string): string =>
  `($d := function($v, $n){ $n = 0 ? $v : $d([[$v], [$v]], $n - 1) }; $t := $d([[]], 40); ${last})`

let nestedDefault = 'a'
for (let level = 0; level < 25; level++) nestedDefault = `(${nestedDefault} ?: b)`

/** Those one finds by reading the evaluator. */
export const MORE: readonly Hostile[] = [
  // Small in memory, endless as trees.
  entry('a shared tree, as a string', shared('$string($t)'), SIZE),
  entry('a shared tree, concatenated', shared('$t & ""'), SIZE),
  entry('a shared tree, compared', shared('$t = $d([[]], 40)'), SIZE),
  entry('a shared tree, as a condition', shared('$t ? 1 : 2'), SIZE),
  entry('a shared tree, its descendants', shared('$count($t.**)'), SIZE),
  entry('a shared tree, a member of it', shared('$t.x'), SIZE),
  entry(
    'a shared tree in an error',
    '($d := function($v, $n){ $n = 0 ? $v : $d({"a": $v, "b": $v}, $n - 1) }; {$d(1, 30): 1})',
    SIZE,
  ),
  entry(
    'a list doubled',
    '($d := function($l, $n){ $n = 0 ? $l : $d($append($l, $l), $n - 1) }; $count($d([1], 30)))',
    SIZE,
  ),
  entry(
    'a list doubled by a function applied in part',
    '($a := $append(?, ?); $reduce([1..30], function($l, $n){ $a($l, $l) }, [1, 2]))',
    SIZE,
  ),
  entry('the same item ten thousand times', 'context.text[[1..10000].(0)]', SIZE),
  entry('the same text for each item, as a step', '($t := context.items.$$.context.text; 1)', SIZE),
  entry('the same text for each item, by a tuple', '($t := context.items@$x.text; 1)', SIZE),
  entry('the same text for each item, by a transform', '($t := $ ~> |context.items|{"s": $$.context.text}|; 1)', SIZE),
  entry('a deep value', '$string($reduce([1..2000], function($a, $x){ [[$a]] }))', SIZE),
  // Strings that are built first and judged later.
  entry('a replacement of everything by a lot', '$replace($pad("a", 9999, "a"), "a", $pad("b", 9999, "b"))', SIZE),
  entry('a replacement that repeats the match', '$replace($pad("a", 9999, "a"), /a+/, $pad("$0", 9998, "$0"))', SIZE),
  entry('a string split into its characters', '$split($pad("x", 250000), "")', SIZE),
  entry('a string of escapes', '$encodeUrl($pad("é", 200000, "é"))', SIZE),
  entry('indentation', '$string($reduce([1..150], function($a, $x){ [$a, $a] }), true)', SIZE),
  // Quadratic, or worse.
  entry(
    'a needle that nearly fits everywhere',
    '$contains($pad("a", 262000, "a"), $pad("a", 60000, "a") & "b" & $pad("a", 60000, "a"))',
    { value: false },
  ),
  entry('distinct members', '$count($distinct([1..10000].{"a": $}))', { value: 10_000 }),
  entry('matches that each look to the end', '$count($match($pad("ac", 20000, "ac"), /a.*b|c/))', TIME),
  entry('a regular expression with many states on a long text', '$match($pad("a", 250000, "a"), /(a?){40}$/)', TIME),
  entry('a regular expression that is huge when written out', '$match("a", /((a{30}){30}){30}/)', SYNTAX),
  entry('a signature that backtracks', `function($x)<${'s?'.repeat(30)}n>{1}(${'"a",'.repeat(16)}true)`, SYNTAX),
  entry('a signature that is a regular expression', 'function($x)<(`s]*)*)*([s`)>{1}("s")', SYNTAX),
  entry('a picture that backtracks', `$toMillis("${'1'.repeat(40)}x", "${'[f]'.repeat(12)}")`, FUNCTION),
  entry('order by', '[1..10000]^($ * 7919 % 10007)', TIME),
  entry('tuples of tuples', '[1..300]@$a.[1..300]@$b.[1..300]@$c.($a + $b + $c)', SIZE),
  entry('descendants of descendants', '**.**.**.**', SIZE),
  entry('a function that is called with no node in between', '$map([1..10000].$$, $string)', SIZE),
  // Loops that never end natively.
  entry('infinity in letters', '$formatInteger(1e308 * 10, "A")', FUNCTION),
  entry('infinity with an exponent', '$formatNumber(1e308 * 10, "0e0")', FUNCTION),
  entry('a huge number in Roman numerals', '$formatInteger(1e300, "I")', FUNCTION),
  entry('a picture with a huge width', '$fromMillis(1, "[Y,300000000]")', FUNCTION),
  entry('a long picture', '$formatNumber(1, $pad("#,", 200000, "#,") & "0")', FUNCTION),
  // Promises: they never end, or reject without a listener, which ends a process.
  entry('an object with then', '($g := function($r){ {"then": $r} }; $g(function($a){ $error("x") }))', TYPE),
  entry(
    'an object with then, in a list',
    '($g := function($r){ [1].{"then": $r} }; $g(function($a){ $error("x") }))',
    TYPE,
  ),
  entry(
    'an object with toJSON',
    '($g := function($r){ $string({"toJSON": $r}) }; $g(function($a){ $error("x") }))',
    TYPE,
  ),
  entry('a tuple with then', '[1, 2]@$then[0]', SYNTAX),
  entry('a failure beside an endless loop', '[$error("x"), ($f := function($n){ $f($n + 1) }; $f(0))]', FUNCTION),
  // Writing to objects of the engine.
  entry('an object within itself', '{"a": {"b": 1}} ~> |a|{"self": $}|', { value: { a: { b: 1, self: { b: 1 } } } }),
  entry('a list that says it is long', '[[1]] ~> |$|{"length": 4000000000}|', TYPE),
  entry('writing onto a function', '{} ~> |$uppercase|{"implementation": 1}|', TYPE),
  entry('writing onto a function in a list', '($u := [$uppercase]; {} ~> |$u|{"implementation": 1}|)', TYPE),
  entry('writing onto a lambda', '($f := function($x){ $x }; {} ~> |$f|{"environment": {}}|)', TYPE),
  entry('writing onto the document', '{} ~> |$$.context|{"a": 1}|', TYPE),
  entry('a $clone that does not copy', '($clone := function($x){ $x }; context ~> |$|{"a": 1}|)', TYPE),
  entry('a variable that outlives a transform', '{"a": {}} ~> |$v := a|{"b": 1}|', SYNTAX),
  entry('looking into a function', '$keys($spread([$sum]))', { value: null }),
  entry('eval', '($e := $eval; $e("1"))', SYNTAX),
  // The parser.
  entry('defaults within defaults', nestedDefault, PARSE),
  entry('a very long path', 'a' + '.a'.repeat(8_000), PARSE),
  entry('many parents', 'a.b' + '.%'.repeat(1_500), PARSE),
  entry('many brackets', 'a' + '[0]'.repeat(2_700) + '[]'.repeat(3_500), PARSE),
  entry('deep parentheses', '('.repeat(8_000) + '1' + ')'.repeat(8_000), PARSE),
  entry('many signs', '-'.repeat(16_000) + 'a', PARSE),
  entry('a long sum', '1' + '+1'.repeat(8_000), PARSE),
  entry('a long text', `"${'x'.repeat(20_000)}"`, PARSE),
  // Memory.
  entry(
    'a long string in every frame',
    '($f := function($s){ 1 + $f($uppercase($s) & "x") }; $f($pad("x", 200000, "x")))',
    SIZE,
  ),
  entry('a list of long strings', '[1..10000].$pad("x", 200000, "x")', SIZE),
]

export const HOSTILE: readonly Hostile[] = [...THIRTEEN, ...MORE]

/** What they are evaluated on. */
export const HOSTILE_DOCUMENT = {
  context: {
    text: 'x'.repeat(10_500),
    items: Array.from({ length: 200 }, (_, id) => ({ id, price: id * 3, tags: ['a', { deep: [1, 2] }] })),
  },
}

/** On a real clock it may be time that ends it first. */
export function endsAs({ ends }: Hostile, outcome: { code?: string; value?: unknown }): boolean {
  if (outcome.code === TIME) return true
  if (typeof ends === 'string') return outcome.code === ends
  return outcome.code === undefined && JSON.stringify(outcome.value) === JSON.stringify(ends.value)
}
