import { expect, test } from 'vitest'
import { LatestWins } from './latest.ts'

function recorder(): { sent: string[]; arrive: (error?: Error) => Promise<void>; latest: LatestWins<string> } {
  const sent: string[] = []
  const open: { resolve: () => void; reject: (error: Error) => void }[] = []
  const latest = new LatestWins<string>((value) => {
    sent.push(value)
    return new Promise((resolve, reject) => open.push({ resolve, reject }))
  })
  const arrive = async (error?: Error): Promise<void> => {
    const first = open.shift()
    if (error === undefined) first?.resolve()
    else first?.reject(error)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { sent, arrive, latest }
}

test('of what is put while one is under way, only the last is sent', async () => {
  const { sent, arrive, latest } = recorder()
  const [a, b, c] = [latest.put('a'), latest.put('b'), latest.put('c')]
  expect(sent).toEqual(['a'])
  await arrive()
  expect(sent).toEqual(['a', 'c'])
  await a
  await arrive()
  await Promise.all([b, c])
})

test('flush waits for what is under way and for what waits behind it', async () => {
  const { arrive, latest } = recorder()
  void latest.put('a')
  void latest.put('b')
  let flushed = false
  const done = latest.flush().then(() => (flushed = true))
  await arrive()
  expect(flushed).toBe(false)
  await arrive()
  await done
})

test('a failure rejects the callers whose value it was, and the next goes on', async () => {
  const { sent, arrive, latest } = recorder()
  const a = latest.put('a')
  const b = latest.put('b')
  const refused = expect(a).rejects.toThrow('no')
  await arrive(new Error('no'))
  await refused
  expect(sent).toEqual(['a', 'b'])
  await arrive()
  await b
})
