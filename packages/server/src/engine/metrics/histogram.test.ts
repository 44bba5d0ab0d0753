import { Counter, Histogram, Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import { JobHistogram, RunCounter } from './histogram.ts'

const BUCKETS = [0.005, 0.5, 10]

describe('a histogram of jobs', () => {
  /** The same observations by a histogram of ours and by one of prom-client, as the registry shows them. */
  async function shown(
    labelNames: readonly string[],
    observations: readonly (readonly [number, ...string[]])[],
  ): Promise<{ ours: string; theirs: string }> {
    const [ours, theirs] = [new Registry(), new Registry()]
    const described = { name: 'time_seconds', help: 'How long.', buckets: BUCKETS }
    const one = new JobHistogram({ ...described, labelNames }, ours)
    const other = new Histogram({ ...described, labelNames: [...labelNames], registers: [theirs] })
    for (const [value, ...labels] of observations) {
      one.observe(value, ...labels)
      other.observe(Object.fromEntries(labelNames.map((name, index) => [name, labels[index] ?? ''])), value)
    }
    return { ours: await ours.metrics(), theirs: await theirs.metrics() }
  }

  test.each([
    ['nothing was observed', ['queue'], []],
    [
      'values lie on and between bounds',
      ['queue'],
      BUCKETS.flatMap(
        (at) =>
          [
            [at, 'a'],
            [at + 0.001, 'a'],
          ] as const,
      ),
    ],
    [
      'values are zero and huge',
      ['queue'],
      [
        [0, 'a'],
        [1e9, 'a'],
      ],
    ],
    ['there are no labels', [], [[1], [2]]],
    [
      'only the first label differs',
      ['queue', 'type', 'state'],
      [
        [1, 'a', 't', 's'],
        [1, 'b', 't', 's'],
      ],
    ],
    [
      'only the second label differs',
      ['queue', 'type', 'state'],
      [
        [1, 'a', 't', 's'],
        [1, 'a', 'u', 's'],
      ],
    ],
    [
      'only the third label differs',
      ['queue', 'type', 'state'],
      [
        [1, 'a', 't', 's'],
        [1, 'a', 't', 'r'],
      ],
    ],
    [
      'series alternate',
      ['queue', 'type'],
      [
        [1, 'a', 't'],
        [2, 'b', 't'],
        [3, 'a', 't'],
        [4, 'b', 't'],
      ],
    ],
    ['labels need escapes', ['queue'], [[1, 'a"b\\c\nd']]],
  ] as const)('shows what prom-client shows when %s', async (_, labelNames, observations) => {
    const { ours, theirs } = await shown(labelNames, observations)
    expect(ours).toBe(theirs)
  })

  test('cannot have the name of another metric', () => {
    const registry = new Registry()
    const described = { name: 'x', help: 'x', labelNames: [], buckets: BUCKETS }
    expect(new JobHistogram(described, registry).name).toBe('x')
    expect(() => new JobHistogram(described, registry)).toThrow('already been registered')
  })
})

describe('a counter of runs', () => {
  test('shows every job after the flush, in runs of equal and of other labels', async () => {
    const counter = new Counter({ name: 'n_total', help: 'n', labelNames: ['queue'], registers: [] })
    const runs = new RunCounter(counter)
    const [a, b] = [{ queue: 'a' }, { queue: 'b' }]
    for (const labels of [a, a, b, a, { queue: 'a' }]) runs.inc(labels)
    runs.flush()
    runs.flush()
    runs.inc(b)
    runs.flush()
    const { values } = await counter.get()
    expect(values.map(({ labels, value }) => [labels.queue, value])).toEqual([
      ['a', 4],
      ['b', 2],
    ])
  })

  test('shows nothing before a job was counted', async () => {
    const counter = new Counter({ name: 'n_total', help: 'n', labelNames: ['queue'], registers: [] })
    new RunCounter(counter).flush()
    expect((await counter.get()).values).toEqual([])
  })
})
