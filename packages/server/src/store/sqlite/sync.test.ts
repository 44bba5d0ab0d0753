import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LogSync } from './sync.ts'

/** A disk whose syncs take as long as the test says; those on a thread end when the test ends them. */
function fakeDisk() {
  const database = join(mkdtempSync(join(tmpdir(), 'curfew-sync-')), 'jobs.db')
  writeFileSync(`${database}-wal`, '')
  const disk = {
    nowMs: 0,
    inPlaceMs: 0.2,
    inPlaceError: null as Error | null,
    placed: 0,
    threads: [] as ((error: Error | null) => void)[],
    endThread(tookMs: number, error: Error | null = null): void {
      disk.nowMs += tookMs
      disk.threads.shift()?.(error)
    },
  }
  const sync = new LogSync(database, () => disk.nowMs, {
    onThread: (_, done) => disk.threads.push(done),
    inPlace: () => {
      disk.placed += 1
      disk.nowMs += disk.inPlaceMs
      if (disk.inPlaceError !== null) throw disk.inPlaceError
    },
  })
  onTestFinished(() => {
    sync.close()
  })
  return { disk, sync }
}

/** A disk that has just shown that it is quick. */
async function quickDisk() {
  const made = fakeDisk()
  const first = made.sync.committed(true)
  made.disk.endThread(0.3)
  await first
  return made
}

describe('a commit that has no other work behind it', () => {
  test('is synced on a thread until the disk has shown that it is quick, and then in place', async () => {
    const { disk, sync } = fakeDisk()
    const first = sync.committed(true)
    expect([disk.placed, disk.threads.length]).toEqual([0, 1])
    disk.endThread(0.3)
    await first
    await sync.committed(true)
    expect([disk.placed, disk.threads.length]).toEqual([1, 0])
  })

  test('is synced on a thread again after a slow sync, until one was quick', async () => {
    const { disk, sync } = await quickDisk()
    disk.inPlaceMs = 20
    await sync.committed(true)
    expect(disk.placed).toBe(1)
    for (const tookMs of [20, 0.5]) {
      const synced = sync.committed(true)
      expect([disk.placed, disk.threads.length]).toEqual([1, 1])
      disk.endThread(tookMs)
      await synced
    }
    await sync.committed(true)
    expect(disk.placed).toBe(2)
  })

  test('is synced on a thread while a sync is under way there', async () => {
    const { disk, sync } = await quickDisk()
    const before = sync.committed()
    const alone = sync.committed(true)
    expect([disk.placed, disk.threads.length]).toEqual([0, 1])
    disk.endThread(0.3)
    await before
    disk.endThread(0.3)
    await alone
  })

  test('is reported as not durable when the sync in place fails, and the sync is not repeated', async () => {
    const { disk, sync } = await quickDisk()
    disk.inPlaceError = new Error('EIO')
    await expect(sync.committed(true)).rejects.toThrow('EIO')
    expect([disk.placed, disk.threads.length]).toEqual([1, 0])
  })
})

test('a commit with other work behind it is synced on a thread, however quick the disk is', async () => {
  const { disk, sync } = await quickDisk()
  const synced = sync.committed()
  expect([disk.placed, disk.threads.length]).toEqual([0, 1])
  disk.endThread(0.3)
  await synced
})
