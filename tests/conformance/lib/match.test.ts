/** What the matchers of the case files accept, and what they say when they do not. */
import { expect, test } from 'vitest'
import { match, show } from './match.mjs'
import { at, MISSING, parsePath } from './path.mjs'

const V4 = 'a3bb189e-8bf9-4c1a-9f2e-0c8b1d2e3f40'
const V7 = '01a1e319-9275-7afe-a29f-cbe67abc3521'

const FITTING: [matcher: unknown, value: unknown][] = [
  [1, 1],
  [1, 1.0000000001],
  [0.3, 0.1 + 0.2],
  [true, true],
  [null, null],
  ['text', 'text'],
  ['any', 0],
  ['any', ''],
  ['exists', null],
  ['absent', MISSING],
  ['absent', null],
  ['string:nonempty', 'x'],
  ['string:non_empty', 'x'],
  ['string:uuid', V4],
  ['string:uuidv7', V7],
  ['string:datetime', '2026-03-01T18:00:00Z'],
  ['string:datetime', '2026-03-01T18:00:00.123+02:00'],
  ['string:contains:b:c', 'ab:cd'],
  ['string:pattern(^a.c$)', 'abc'],
  ['number:positive', 0.1],
  ['number:non_negative', 0],
  ['number:range(-1, 2.5)', 2.5],
  ['array:empty', []],
  ['array:nonempty', [null]],
  ['array:length:2', [1, 2]],
  ['array:length(2)', [1, 2]],
  ['array:min:1', [1, 2]],
  ['array:min_length:2', [1, 2]],
  ['contains:b', ['a', 'b']],
  ['contains:7', [7]],
  ['not_contains:c', ['a', 'b']],
  ['one_of:400, 422', 422],
  ['~1000', 501],
  ['~1000', 1500],
  [
    [1, 'any', ['x']],
    [1, 2, ['x']],
  ],
  [{ a: 1 }, { a: 1, b: 2 }],
  [{ a: { b: 'string:nonempty' } }, { a: { b: 'x' } }],
  [{ 'a.b': 1 }, { 'a.b': 1 }],
  [{ 'a.b': 1 }, { a: { b: 1 } }],
  [{ a: 'absent' }, {}],
  [{ $exists: true }, 0],
  [{ $exists: false }, null],
  [{ $exists: true, $type: 'string' }, 'x'],
  [{ $type: 'null' }, null],
  [{ $type: 'array' }, []],
  [{ $match: '^re' }, 'retryable'],
  [{ $in: ['a', 'b'] }, 'b'],
  [{ $or: ['number:positive', 'absent'] }, MISSING],
  [{ $not: 'number:positive' }, -1],
  [{ $eq: { a: 1 } }, { a: 1 }],
  [{ $eq: 'any' }, 'any'],
  [{ $ne: 1 }, 2],
  [{ $gt: 1, $lt: 3 }, 2],
  [{ $gte: 2, $lte: 2 }, 2],
  [{ $size: 2 }, [1, 2]],
  [{ $size: { $gte: 1 } }, [1, 2]],
  [{ $empty: true }, {}],
  [{ $empty: false }, [1]],
  [{ range: { min: 1, max: 2 } }, 1.5],
  [{ range: 1 }, { range: 1 }],
  [{ $contains: { type: 'a' } }, [{ type: 'b' }, { type: 'a', more: 1 }]],
  [{ $without: { $in: ['x', 'y'] } }, ['a', 'b']],
  [{ $sequence: ['a', 'c'] }, ['a', 'b', 'c', 'd']],
]

test.each(FITTING)('%j fits %j', (matcher, value) => {
  expect(match(matcher, value)).toBeNull()
})

const UNFITTING: [matcher: unknown, value: unknown][] = [
  [1, 2],
  [1, '1'],
  [true, 1],
  [null, MISSING],
  [null, 0],
  ['text', 'other'],
  ['any', null],
  ['any', MISSING],
  ['exists', MISSING],
  ['absent', 0],
  ['string:nonempty', ''],
  ['string:uuid', 'no'],
  ['string:uuidv7', V4],
  ['string:datetime', '2026-03-01T18:00:00'],
  ['string:contains:x', ['x']],
  ['string:pattern(^a$)', 'ab'],
  ['number:positive', 0],
  ['number:positive', '1'],
  ['number:non_negative', -0.1],
  ['number:range(1,2)', 2.1],
  ['array:empty', [1]],
  ['array:empty', {}],
  ['array:nonempty', []],
  ['array:length:2', [1]],
  ['array:min:2', [1]],
  ['contains:b', 'b'],
  ['not_contains:b', ['b']],
  ['not_contains:b', MISSING],
  ['one_of:400,422', 409],
  ['~1000', 499],
  ['~1000', MISSING],
  [[1], [1, 2]],
  [
    [1, 2],
    [2, 1],
  ],
  [{ a: 1 }, { a: 2 }],
  [{ a: 1 }, [1]],
  [{ $exists: true }, null],
  [{ $exists: false }, 0],
  [{ $exists: true, $type: 'string' }, 1],
  [{ $type: 'null' }, MISSING],
  [{ $in: ['a'] }, 'b'],
  [{ $or: ['absent', 1] }, 2],
  [{ $not: 'any' }, 1],
  [{ $eq: { a: 1 } }, { a: 1, b: 2 }],
  [{ $eq: 'any' }, 'something'],
  [{ $ne: 1 }, 1],
  [{ $gt: 1 }, 1],
  [{ $lt: 1 }, 1],
  [{ $gte: 2 }, 1.9],
  [{ $lte: 2 }, MISSING],
  [{ $size: 2 }, 'ab'],
  [{ $size: { $gte: 3 } }, [1, 2]],
  [{ $empty: true }, [0]],
  [{ range: { min: 1 } }, 0],
  [{ $contains: 'a' }, ['b']],
  [{ $contains: 'a' }, 'a'],
  [{ $without: 'a' }, ['a']],
  [{ $without: 'a' }, MISSING],
  [{ $sequence: ['a', 'c'] }, ['c', 'a']],
  [{ $sequence: ['a', 'a'] }, ['a']],
]

test.each(UNFITTING)('%j does not fit %j', (matcher, value) => {
  expect(match(matcher, value)).not.toBeNull()
})

test('a difference says what was wanted, what came, and where', () => {
  expect(match({ jobs: [{ id: 'string:uuidv7' }] }, { jobs: [{ id: 7 }] })).toEqual({
    wanted: 'a UUID of version 7',
    got: 7,
    below: '.jobs[0].id',
  })
  expect(match({ $gte: 2 }, MISSING)).toMatchObject({ wanted: 'a number of at least 2' })
  expect(show(MISSING)).toBe('nothing')
})

test('an operator that does not exist is a mistake in the case, not a verdict on the server', () => {
  expect(() => match({ $almost: 1 }, 1)).toThrow('$almost')
})

const DOCUMENT = {
  jobs: [
    { id: 'a', state: 'active', errors: [{ type: 'timeout' }] },
    { id: 'b', attempt: 2, meta: { 'x.y': { z: 1 } } },
  ],
  none: null,
}

test.each([
  ['$.jobs[0].id', 'a'],
  ['$.jobs[1].attempt', 2],
  ['jobs[1].id', 'b'],
  ['$', DOCUMENT],
  ['$.jobs[*].id', ['a', 'b']],
  ['$.jobs[*].state', ['active']],
  ['$.jobs.*.id', ['a', 'b']],
  ['$.jobs[*].errors[*].type', [['timeout']]],
  ["$.jobs[?(@.id=='b')].attempt", 2],
  ['$.jobs[?(@.id=="b")].attempt', 2],
  ['$.jobs[?(@.attempt==2)].id', 'b'],
  ["$.jobs[?(@.id=='c')].attempt", MISSING],
  ['$.jobs[1].meta["x.y"].z', 1],
  ["$.jobs[1].meta['x.y'].z", 1],
  ['$.jobs[1].meta.x.y.z', 1],
  ['$.none', null],
  ['$.none.more', MISSING],
  ['$.jobs[2].id', MISSING],
  ['$.jobs.id', MISSING],
  ['$.toString', MISSING],
])('the path %s leads to %j', (path, value) => {
  expect(at(path, DOCUMENT)).toEqual(value)
})

test.each(['$.a[', '$.a[x]', '$..a', '$.a[?(@.b)]', '$.a]'])('the path %s makes no sense, and is refused', (path) => {
  expect(() => parsePath(path)).toThrow(SyntaxError)
})
