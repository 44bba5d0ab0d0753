import { expect, test } from 'vitest'
import { incidentDetails, incidentMarkdown, incidentOf, readIncident, type EventAnswer } from './incident.ts'

const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 12, 0, second)).toISOString()
const ms = (second: number): number => Date.parse(at(second))
const event = (type: string, second: number, subject = 's', data: EventAnswer['data'] = {}): EventAnswer => ({
  id: `${type}-${String(second)}-${subject}`,
  type,
  time: at(second),
  subject,
  data,
})

const LOG = [
  event('worker.died', 1, 'w1'),
  event('job.timeout', 5, 'j1'),
  event('job.timeout', 5, 'j2'),
  event('queue.paused', 9, 'mail'),
]

test('the window has its events and notes, the newest first; of one millisecond, the last that happened', () => {
  const notes = [
    { id: 'n', time: at(6), text: 'deployed', by: null },
    { id: 'o', time: at(0), text: 'before', by: 'ada' },
  ]
  const { events, kinds } = incidentOf(LOG, notes, ms(1), ms(8))
  expect(events.map(({ type, subject }) => `${type} ${subject}`)).toEqual([
    'note operator',
    'job.timeout j2',
    'job.timeout j1',
    'worker.died w1',
  ])
  expect(kinds).toEqual([
    { type: 'job.timeout', count: 2, isBad: true, firstAt: at(5), lastAt: at(5) },
    { type: 'note', count: 1, isBad: false, firstAt: at(6), lastAt: at(6) },
    { type: 'worker.died', count: 1, isBad: true, firstAt: at(1), lastAt: at(1) },
  ])
})

test('both ends of the window belong to it', () => {
  expect(incidentOf(LOG, [], ms(1), ms(9)).events).toHaveLength(4)
  expect(incidentOf(LOG, [], ms(1) + 1, ms(9) - 1).events).toHaveLength(2)
})

test('details are the fields that explain an event', () => {
  const data = { job_type: 'a', limit_ms: 3_000, source: 'queue', id: 'x', args: [1], text: 'said' }
  expect(incidentDetails(event('job.timeout', 1, 'j', data))).toBe('said, job type a, limit 3 s, source queue')
})

test('as Markdown the oldest comes first, and text cannot end a cell', () => {
  const noted = [event('note', 2, 'a|b', { text: 'one\ntwo | three' }), event('worker.died', 1, 'w')]
  expect(incidentMarkdown(noted, 5).split('\n').slice(2)).toEqual([
    `| ${at(1)} | worker.died | w |  |`,
    `| ${at(2)} | note | a\\|b | one two \\| three |`,
  ])
  expect(incidentMarkdown(noted, 1).split('\n')).toHaveLength(3)
})

test('the log is read from its end, and only as far back as the window reaches', async () => {
  const asked: string[] = []
  const pages: Record<string, unknown> = {
    '': { events: [...LOG].reverse().slice(0, 2), cursor: 'c1', has_more: true },
    '&after=c1': { events: [...LOG].reverse().slice(2), cursor: 'c2', has_more: true },
  }
  const get = (path: string): Promise<unknown> => {
    if (path.includes('annotations')) return Promise.resolve({ items: [] })
    asked.push(/&order=desc&limit=1000(.*)$/.exec(path)?.[1] ?? path)
    return Promise.resolve(pages[asked.at(-1) ?? ''])
  }
  const { events, isPart } = await readIncident(get, ms(5), Infinity)
  expect(events.map(({ subject }) => subject)).toEqual(['mail', 'j2', 'j1'])
  expect([asked, isPart]).toEqual([['', '&after=c1'], false])
})
