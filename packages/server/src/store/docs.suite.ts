/** The part of the port's contract that is about documents: `store.suite.ts` runs it with the rest. */
import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import type { Doc, Instant } from '@curfew/core'
import { aDoc, at, changes, saveIn, within } from './builders.suite.ts'
import { anyDoc } from './any-record.suite.ts'
import { RowsMoved, type Change, type Store } from './store.ts'

const SLOW = { timeout: 60_000 }

export function docsSuite(theStore: () => Store): void {
  const put = async (...docs: Change<Doc>[]): Promise<void> => {
    await saveIn(theStore(), changes({ docs }))
  }
  const add = (...docs: Doc[]): Promise<void> => put(...docs.map((after) => ({ before: null, after })))

  describe('a document', () => {
    test('comes back as it was saved and changed, whatever its name and its body', SLOW, async () => {
      await fc.assert(
        fc.asyncProperty(anyDoc(), anyDoc(), async (first, second) => {
          const store = theStore()
          await store.reset()
          await add(first)
          expect(await store.doc(first.kind, first.id)).toEqual(first)
          const { kind, id } = first
          const after = { ...second, kind, id }
          await put({ before: first, after })
          expect(await store.doc(kind, id)).toEqual({ ...after, version: 2 })
          const name = { kind, id }
          expect(await within(store, (tx) => tx.findDocs([name]))).toEqual([{ ...after, version: 2 }])
          expect(await within(store, (tx) => tx.seeDocs([name]))).toEqual([{ ...after, version: 2 }])
        }),
      )
    })

    test('keeps a large body, byte for byte', async () => {
      const body = `{ "a" : 1.0, "text":"${'é😀'.repeat(200_000)}" }`
      await add(aDoc({ body }))
      expect((await theStore().doc('cron', 'nightly'))?.body).toBe(body)
    })

    test('takes no notice of the version it is saved with, only of the one it was found in', async () => {
      await add(aDoc({ version: 77 }))
      await put({ before: aDoc(), after: aDoc({ version: 77, body: '{}' }) })
      expect(await theStore().doc('cron', 'nightly')).toEqual(aDoc({ version: 2, body: '{}' }))
    })

    test('is removed, and may come again', async () => {
      await add(aDoc({ wakeAt: at(5) }))
      await put({ before: aDoc(), after: null })
      expect(await theStore().doc('cron', 'nightly')).toBeNull()
      expect(await within(theStore(), (tx) => tx.findDueDocs(at(9), 9))).toEqual([])
      await add(aDoc())
      expect(await theStore().doc('cron', 'nightly')).toEqual(aDoc())
    })

    test('is not saved over a version that moved on, nor added twice, nor changed when it is gone', async () => {
      const other = { before: null, after: aDoc({ id: 'other' }) }
      await add(aDoc())
      await put({ before: aDoc(), after: aDoc({ body: '2' }) })
      const refused: Change<Doc>[] = [
        { before: aDoc(), after: aDoc({ body: '3' }) },
        { before: aDoc(), after: null },
        { before: null, after: aDoc() },
        { before: aDoc({ id: 'unknown' }), after: aDoc({ id: 'unknown' }) },
        { before: aDoc({ id: 'unknown' }), after: null },
      ]
      for (const change of refused) await expect(put(other, change)).rejects.toBeInstanceOf(RowsMoved)
      for (const change of refused) await expect(put(change, other)).rejects.toBeInstanceOf(RowsMoved)
      expect(await theStore().docsAfter(null, 9)).toEqual([aDoc({ version: 2, body: '2' })])
    })

    test('has its name within its kind', async () => {
      const [one, other] = [aDoc({ kind: 'a', body: '1' }), aDoc({ kind: 'b', body: '2' })]
      await add(one, other)
      const store = theStore()
      expect([await store.doc('a', 'nightly'), await store.doc('b', 'nightly')]).toEqual([one, other])
      expect(await store.docs('a', '', null, 9)).toEqual([one])
      await put({ before: one, after: null })
      expect(await store.docsAfter(null, 9)).toEqual([other])
    })
  })

  describe('finding documents', () => {
    test('by name gives those that exist, in the order of asking, each once', async () => {
      const docs = ['b/x', 'a/x', 'b/a'].map((name) => {
        const [kind = '', id = ''] = name.split('/')
        return aDoc({ kind, id })
      })
      await add(...docs)
      const [bx, ax, ba] = docs as [Doc, Doc, Doc]
      const names = [bx, aDoc({ kind: 'a', id: 'a' }), ba, ax, { ...bx }]
      for (const find of ['findDocs', 'seeDocs'] as const) {
        expect(await within(theStore(), (tx) => tx[find](names))).toEqual([bx, ba, ax])
        expect(await within(theStore(), (tx) => tx[find]([]))).toEqual([])
      }
    })

    test('from the last one down, page by page', async () => {
      const ids = LETTERS.toSorted(byCodePoint)
      await add(...ids.map((id) => aDoc({ kind: 'k', id })), aDoc({ kind: 'j' }), aDoc({ kind: 'l' }))
      const below = async (before: string | null, limit: number): Promise<string[]> =>
        (await theStore().docsBelow('k', before, limit)).map(({ id }) => id)
      expect(await below(null, 99)).toEqual(ids.toReversed())
      expect(await below(null, 2)).toEqual(ids.slice(-2).reverse())
      expect(await below(ids[2] ?? '', 99)).toEqual(ids.slice(0, 2).reverse())
      expect(await below('b!', 1)).toEqual(['b'])
    })

    test('that are due: earliest first, up to and including now, of every kind', async () => {
      const [late, first, second, after] = [300, 100, 200, 201].map((ms, n) =>
        aDoc({ kind: n % 2 === 0 ? 'a' : 'b', id: String(ms), wakeAt: at(ms) }),
      ) as [Doc, Doc, Doc, Doc]
      await add(late, first, second, after, aDoc({ wakeAt: null }))
      const due = (now: Instant, limit: number) => within(theStore(), (tx) => tx.findDueDocs(now, limit))
      expect(await due(at(200), 10)).toEqual([first, second])
      expect(await due(at(200), 1)).toEqual([first])
      expect(await due(at(99), 10)).toEqual([])
      await put(
        { before: first, after: { ...first, wakeAt: null } },
        { before: late, after: { ...late, wakeAt: at(1) } },
      )
      expect((await due(at(200), 10)).map(({ id }) => id)).toEqual(['300', '200'])
    })

    test('by how their names begin, whatever the names are made of', async () => {
      const ids = [
        'A',
        'a',
        'a%',
        'a%b',
        'a*',
        'a/',
        'a/1',
        'a/10',
        'a/2',
        'a?',
        'a[b]',
        'a\\',
        'a_',
        'a_b',
        'ab',
        'b',
        'é',
        ...['\ud7ff', '\ud7ffa', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}', '\u{10ffff}\u{10ffff}'],
      ]
      await add(...ids.map((id) => aDoc({ id })), aDoc({ kind: 'other', id: 'a_' }))
      for (const prefix of ['', ...ids, 'a/3', '%', '_']) {
        const expected = ids.filter((id) => id.startsWith(prefix))
        expect([prefix, await namesUnder(theStore(), 'cron', prefix, null, 99)]).toEqual([prefix, expected])
      }
    })

    test('by how their names begin, in the order of their code points, page by page', SLOW, async () => {
      const text = fc.array(fc.constantFrom(...LETTERS), { maxLength: 4 }).map((letters) => letters.join(''))
      const texts = fc.uniqueArray(
        text.filter((id) => id !== ''),
        { maxLength: 12 },
      )
      await fc.assert(
        fc.asyncProperty(texts, text, fc.option(text, { nil: null }), fc.nat(5), async (ids, prefix, after, limit) => {
          await theStore().reset()
          await add(...ids.map((id) => aDoc({ id })), ...ids.map((id) => aDoc({ kind: 'cron2', id })))
          const sorted = ids.toSorted(byCodePoint)
          const expected = sorted
            .filter((id) => id.startsWith(prefix) && (after === null || byCodePoint(id, after) > 0))
            .slice(0, limit)
          expect(await namesUnder(theStore(), 'cron', prefix, after, limit)).toEqual(expected)
          const all = await theStore().docsAfter(null, 99)
          expect(all.map(({ kind, id }) => [kind, id])).toEqual(
            ['cron', 'cron2'].flatMap((kind) => sorted.map((id) => [kind, id])),
          )
          for (const [n, name] of all.entries()) {
            expect(await theStore().docsAfter(name, 2)).toEqual(all.slice(n + 1, n + 3))
          }
        }),
        { numRuns: 60 },
      )
    })

    test('within a transaction shows what it has saved', async () => {
      const [kept, changed, gone] = ['a/1', 'a/2', 'a/3'].map((id) => aDoc({ id, wakeAt: at(1) })) as [Doc, Doc, Doc]
      await add(kept, changed, gone)
      await within(theStore(), async (tx) => {
        const added = aDoc({ id: 'a/0', wakeAt: at(0) })
        await tx.save(
          changes({
            docs: [
              { before: null, after: added },
              { before: changed, after: { ...changed, wakeAt: at(5) } },
              { before: gone, after: null },
            ],
          }),
        )
        const later = { ...changed, wakeAt: at(5), version: 2 }
        expect(await tx.seeDocsUnder('cron', 'a/', null, 9)).toEqual([added, kept, later])
        expect(await tx.findDueDocs(at(4), 9)).toEqual([added, kept])
        expect(await tx.findDocs([changed, gone])).toEqual([later])
        await tx.save(changes({ docs: [{ before: later, after: null }] }))
        expect(await tx.seeDocs([changed])).toEqual([])
      })
      expect((await theStore().docs('cron', '', null, 9)).map(({ id }) => id)).toEqual(['a/0', 'a/1'])
    })
  })
}

/** Those that mean something to a pattern, those at the edges of what UTF-8 and UTF-16 sort differently, and the last of all. */
const LETTERS = ['a', 'b', 'A', '/', '%', '_', '\\', '\u0002', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}']

function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The same to a transaction and to a reader. */
async function namesUnder(
  store: Store,
  kind: string,
  prefix: string,
  after: string | null,
  limit: number,
): Promise<string[]> {
  const read = await store.docs(kind, prefix, after, limit)
  expect(await within(store, (tx) => tx.seeDocsUnder(kind, prefix, after, limit))).toEqual(read)
  expect(read.every((doc) => doc.kind === kind)).toBe(true)
  return read.map(({ id }) => id)
}
