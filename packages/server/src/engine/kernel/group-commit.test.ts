/** Who shares a transaction with whom: a disk that is slow by hand, and turns of the event loop that are taken by hand. */
import { after, FakeClock, millis, OjsError, type Host, type Instant, type Moment } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { StoreUnavailable, type Store, type Transaction } from '../../store/store.ts'
import { LongDocs } from './long-docs.ts'
import type { Command } from './command.ts'
import { GroupCommit } from './group-commit.ts'
import { Polls } from '../jobs/polls.ts'
import { PollServing } from '../jobs/serving.ts'

/** Commits at once, and is on the disk when the test says so. */
class SlowDisk {
  readonly #waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = []
  /** What happens before each of the next transactions has begun. */
  readonly before: (() => void)[] = []
  /** What the next commits tell of the next row to be woken. */
  nextWakeAt: Instant | null = null
  /** How often the store was asked for jobs that are due. */
  looks = 0

  readonly #transaction: Store['transaction'] = async (work) => {
    this.before.shift()?.()
    const { value } = await work({
      seeLife: () => Promise.resolve({ aliveAt: null, outages: [] }),
      findDueWorkers: () => Promise.resolve([]),
      findDueJobs: () => {
        this.looks += 1
        return Promise.resolve([])
      },
      findDueDocs: () => Promise.resolve([]),
      save: () => Promise.resolve(),
    } as unknown as Transaction)
    const durable = new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }))
    return { value, events: [], durable, nextWakeAt: this.nextWakeAt }
  }

  readonly store = { transaction: this.#transaction, shared: false, clock: null } as unknown as Store

  sync(): void {
    for (const { resolve } of this.#waiting.splice(0)) resolve()
  }

  fail(): void {
    for (const { reject } of this.#waiting.splice(0)) reject(new StoreUnavailable('the disk is full', null))
  }
}

/** Ends a turn of the event loop, with everything that follows from it. */
class Turns {
  readonly #deferred: (() => void)[] = []
  /** How long each of them lasts. */
  lastMs = 0
  readonly #clock = new FakeClock()
  readonly host: Host = Object.assign(this.#clock, {
    defer: (run: () => void) => {
      this.#deferred.push(run)
    },
  })

  async end(times = 1): Promise<void> {
    await this.quiet()
    for (let turn = 0; turn < times; turn += 1) {
      this.#clock.advance(this.lastMs)
      for (const run of this.#deferred.splice(0)) run()
      await this.quiet()
    }
  }

  async quiet(): Promise<void> {
    for (let n = 0; n < 50; n += 1) await Promise.resolve()
  }
}

const command = (name: string): Command<void> => ({ name, run: () => {} })

interface Opened {
  readonly commits: GroupCommit
  readonly disk: SlowDisk
  readonly turns: Turns
  readonly groups: number[]
  readonly clock: FakeClock
}

function openGroupCommit(): Opened {
  const [disk, turns, groups] = [new SlowDisk(), new Turns(), [] as number[]]
  const clock = new FakeClock()
  const commits = new GroupCommit({
    store: disk.store,
    host: turns.host,
    moment: () => ({ now: clock.now() }) as Moment,
    judge: () => ({ outages: [], stamp: null }),
    workerTimeoutMs: millis(30_000),
    deadLetterMax: 10,
    longDocs: new LongDocs(turns.host),
    wake: { isPolling: () => false, wakeDocs: async () => {}, follow: async () => {} },
    serving: () => new PollServing(new Polls(), () => true),
    onBrokenLook: () => {},
    chore: () => null,
    onBrokenChore: () => {},
    onCommit: ({ commands }) => groups.push(commands),
    onDurable: () => {},
    onTrouble: () => {},
  })
  return { commits, disk, turns, groups, clock }
}

test('a caller that is answered and asks again at once shares a transaction with those that waited meanwhile', async () => {
  const { commits, disk, turns, groups } = openGroupCommit()
  const first = commits.run(command('first'))
  await turns.end(2)
  const other = commits.run(command('other'))
  await turns.end(2)
  expect(groups).toEqual([1]) // the other waits for the disk
  disk.sync()
  await first
  await turns.end() // the answer is on its way
  const again = commits.run(command('first again'))
  await turns.end(2)
  expect(groups).toEqual([1, 2])
  disk.sync()
  await Promise.all([other, again])
})

test('a group gathers as long as every turn adds a command, but not for ever', async () => {
  const { commits, disk, turns, groups } = openGroupCommit()
  const asked: Promise<void>[] = []
  const come = async (): Promise<void> => {
    asked.push(commits.run(command('come')))
    await turns.quiet()
  }
  await come()
  for (let n = 0; n < 3; n += 1) {
    await come()
    await turns.end()
  }
  expect(groups).toEqual([])
  await turns.end()
  expect(groups).toEqual([4])
  for (let n = 0; n < 30; n += 1) {
    disk.sync()
    await come()
    await turns.end()
  }
  disk.sync()
  await turns.end(2)
  disk.sync()
  await Promise.all(asked)
  expect(Math.max(...groups)).toBeLessThan(12)
})

test('a command that is alone is decided at the end of its turn', async () => {
  const { commits, disk, turns, groups } = openGroupCommit()
  for (let n = 1; n <= 3; n += 1) {
    const alone = commits.run(command('alone'))
    await turns.end()
    expect(groups).toHaveLength(n)
    disk.sync()
    await alone
  }
})

describe('a process that stands still when a group is about to be decided', () => {
  /** When a command is decided while the clock goes on by this before each transaction has begun; the last one counts. */
  async function decidedAfter(...standstillsMs: number[]): Promise<number[]> {
    const { commits, disk, turns, clock } = openGroupCommit()
    const beganAt = clock.now()
    for (const ms of standstillsMs) {
      disk.before.push(() => {
        clock.advance(ms)
      })
    }
    const decidedAt: number[] = []
    const run = commits.run({ name: 'note', run: ({ now }) => void decidedAt.push(now - beganAt) })
    await turns.end(2)
    disk.sync()
    await run
    return decidedAt
  }

  test('decides it again, at the instant at which it went on', async () => {
    expect((await decidedAfter(10_000)).at(-1)).toBe(10_000)
    expect((await decidedAfter(10_000, 60_000)).at(-1)).toBe(70_000)
  })

  test('does not decide again what takes a moment', async () => {
    expect(await decidedAfter(900)).toEqual([0])
  })

  test('gives a group that always takes long more time with each try', async () => {
    expect(await decidedAfter(3_000, 3_000, 3_000, 3_000)).toEqual([0, 3_000, 6_000])
  })
})

describe('a caller that prepares an answer ahead', () => {
  test('hears what was decided before it is on the disk, and that it is, once it is', async () => {
    const { commits, disk, turns } = openGroupCommit()
    const asked = commits.runAhead({ name: 'ahead', run: () => 7 })
    await turns.end(2)
    const { value, durable } = await asked
    expect(value).toBe(7)
    let isDurable = false
    void durable.then(() => (isDurable = true))
    await turns.quiet()
    expect(isDurable).toBe(false)
    disk.sync()
    await turns.quiet()
    expect(isDurable).toBe(true)
  })

  test('hears if the commit fails', async () => {
    const { commits, disk, turns } = openGroupCommit()
    const asked = commits.runAhead(command('ahead'))
    await turns.end(2)
    const { durable } = await asked
    disk.fail()
    await expect(durable).rejects.toMatchObject({ code: 'unavailable' })
  })

  test('hears of a refusal only when everything it may rest on is on the disk', async () => {
    const { commits, disk, turns } = openGroupCommit()
    const refuse = (): never => {
      throw new OjsError('conflict', 'no')
    }
    let isRefused = false
    commits.runAhead({ name: 'ahead', run: refuse }).catch(() => (isRefused = true))
    await turns.end(2)
    expect(isRefused).toBe(false)
    disk.sync()
    await turns.quiet()
    expect(isRefused).toBe(true)
  })
})

describe('what is due', () => {
  async function settleOne({ commits, disk, turns }: Opened): Promise<void> {
    const done = commits.run(command('any'))
    await turns.end(2)
    disk.sync()
    await done
  }

  test('is looked for by the first group, and then by those that come when the next row wants to be woken', async () => {
    const opened = openGroupCommit()
    const { disk, clock } = opened
    disk.nextWakeAt = after(clock.now(), millis(1_000))
    await settleOne(opened)
    expect(disk.looks).toBe(1)
    clock.advance(999)
    await settleOne(opened)
    expect(disk.looks).toBe(1)
    clock.advance(1)
    await settleOne(opened)
    expect(disk.looks).toBe(2)
  })

  test.each(['before it was committed', 'on the way to the disk'])(
    'is looked for again by the group after one that failed %s',
    async (when) => {
      const opened = openGroupCommit()
      const { commits, disk, turns } = opened
      await settleOne(opened)
      const failed = commits.run(command('any'))
      const refusal = expect(failed).rejects.toMatchObject({ code: 'unavailable' })
      if (when.startsWith('before')) {
        disk.before.push(() => {
          throw new StoreUnavailable('disk I/O error', null)
        })
      }
      await turns.end(2)
      disk.fail()
      await refusal
      expect(disk.looks).toBe(1)
      await settleOne(opened)
      expect(disk.looks).toBe(2)
    },
  )
})

test('a refusal reaches the caller, and then the meters', async () => {
  const { commits, disk, turns } = openGroupCommit()
  const heard: string[] = []
  const refuse = (): never => {
    throw new OjsError('conflict', 'no')
  }
  commits.run({ name: 'any', run: refuse }, () => heard.push('others')).catch(() => heard.push('asker'))
  await turns.end(2)
  disk.sync()
  await turns.quiet()
  expect(heard).toEqual(['asker', 'others'])
})

describe('while each turn adds a command', () => {
  /** How many are in the first group. */
  async function gathered(lastMs: number): Promise<number | undefined> {
    const { commits, disk, turns, groups } = openGroupCommit()
    turns.lastMs = lastMs
    const all = [commits.run(command('first'))]
    await turns.quiet()
    for (let turn = 0; turn < 12; turn += 1) {
      all.push(commits.run(command(String(turn))))
      await turns.end()
      disk.sync()
    }
    await turns.end(20)
    disk.sync()
    await Promise.all(all)
    return groups[0]
  }

  test('a group gathers for eight turns after the first', async () => {
    expect(await gathered(0)).toBe(9)
  })

  test('a group is decided after two turns of 3 ms', async () => {
    expect(await gathered(3)).toBe(3)
  })
})
