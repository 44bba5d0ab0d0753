import fc from 'fast-check'
import { expect, test } from 'vitest'
import { leaves, type Frame, type Rest } from './run.ts'
import { aFrame, later, openStep, ready } from './runs.suite.ts'
import { changeFrames, handedOn } from './frames.ts'
import { surveyOf } from './survey.ts'

const leaf = fc.constantFrom<Rest>(
  ready,
  { kind: 'ready', by: 'server-1' },
  { kind: 'calling', by: 'server-2' },
  openStep,
  { kind: 'waiting', timeoutAt: later(500), onTimeout: 'late', next: 'after' },
  { kind: 'sleeping', until: later(700), next: 'after' },
  { kind: 'job', jobId: 'j', resultVar: null, next: 'after' },
)
const { frame } = fc.letrec<{ frame: Frame }>((tie) => ({
  frame: fc
    .oneof(
      { depthSize: 'small' },
      leaf,
      fc
        .dictionary(fc.stringMatching(/^[a-z]{1,3}$/), tie('frame'))
        .map((frames): Rest => ({ kind: 'forked', frames })),
      tie('frame').map((inner): Rest => ({ kind: 'inside', frame: inner })),
    )
    .map((rest) => aFrame('some', 'timer', rest)),
}))

test('one look tells what looking at each frame tells', () => {
  fc.assert(
    fc.property(frame, (root) => {
      const all = leaves(root).map(({ rest }) => rest)
      const moving = all.filter((rest) => rest.kind === 'ready' || rest.kind === 'calling')
      const by = (rests: readonly Rest[]): Set<string | null> =>
        new Set(rests.map((rest) => ('by' in rest ? rest.by : null)))
      const due = all.flatMap((rest) =>
        rest.kind === 'sleeping'
          ? [rest.until]
          : rest.kind === 'waiting' && rest.timeoutAt !== null
            ? [rest.timeoutAt]
            : [],
      )
      for (let again = 0; again < 2; again += 1) {
        const survey = surveyOf(root)
        expect(survey.width).toBe(all.length)
        expect(survey.dueAt).toBe(due.length === 0 ? null : Math.min(...due))
        expect(survey.isMoving).toBe(moving.length > 0)
        expect(survey.isUnclaimed).toBe(by(moving).has(null))
        expect(survey.owners).toEqual(new Set([...by(moving)].filter((one) => one !== null)))
        expect(survey.ready).toEqual(
          new Set([...by(moving.filter(({ kind }) => kind === 'ready'))].filter((one) => one !== null)),
        )
      }
    }),
  )
})

test('work without a server is handed on, whichever server does the rest', () => {
  fc.assert(
    fc.property(frame, fc.constantFrom(null, 'server-1', 'server-2'), (root, from) => {
      const handed = surveyOf(handedOn(root, from, 'server-3'))
      const before = surveyOf(root)
      const isDoing = from === null ? before.isUnclaimed : before.owners.has(from)
      expect(handed.owners.has('server-3')).toBe(isDoing)
      expect(from === null ? handed.isUnclaimed : handed.owners.has(from)).toBe(false)
    }),
  )
})

test('a look at branches that changes none gives back the same frame', () => {
  fc.assert(
    fc.property(frame, (root) => {
      expect(changeFrames(root, () => null)).toBe(root)
    }),
  )
})
