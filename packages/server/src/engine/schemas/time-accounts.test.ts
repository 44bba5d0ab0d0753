import { FakeClock } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { TimeAccounts } from './time-accounts.ts'

const open = () => {
  const clock = new FakeClock()
  const accounts = new TimeAccounts(clock)
  return { clock, accounts, account: accounts.of('email.send') }
}

describe('an account of time', () => {
  test('grants as much as may be taken at once, and then what is left', () => {
    const { account } = open()
    expect(account.grantMs(50, 1)).toBe(50)
    account.book(70)
    expect(account.grantMs(50, 1)).toBe(30)
  })

  test('that is overdrawn grants no more than is fair', () => {
    const { account } = open()
    account.book(99.5)
    expect(account.grantMs(50, 1)).toBe(1)
    account.book(60)
    expect(account.grantMs(50, 1)).toBe(1)
    expect(account.grantMs(50, 4)).toBe(4)
    expect(account.grantMs(50, 400)).toBe(50)
  })

  test('that is overdrawn too far grants nothing', () => {
    const { account } = open()
    account.book(200)
    expect(account.grantMs(50, 1)).toBe(1)
    account.book(1)
    expect(account.grantMs(50, 1)).toBe(0)
    expect(account.grantMs(50, 40)).toBe(0)
  })

  test('gets a tenth of the time back that goes by', () => {
    const { clock, account } = open()
    account.book(201)
    clock.advance(10)
    expect(account.grantMs(50, 1)).toBe(1)
    clock.advance(1_000 + 300)
    expect(account.grantMs(50, 1)).toBe(30)
    clock.advance(100)
    expect(account.grantMs(50, 1)).toBe(40)
  })

  test('never holds more than at the beginning', () => {
    const { clock, account } = open()
    account.book(10)
    clock.advance(3_600_000)
    account.book(60)
    expect(account.grantMs(50, 1)).toBe(40)
  })

  test('is not touched by work that took no more than is fair', () => {
    const { account } = open()
    account.book(0)
    account.book(-5)
    account.book(60)
    expect(account.grantMs(50, 1)).toBe(40)
  })

  test('is separate from other accounts, and the same one wherever its name is used', () => {
    const { accounts, account } = open()
    account.book(300)
    expect(accounts.of('email.other').grantMs(50, 1)).toBe(50)
    expect(accounts.of('email.send').grantMs(50, 1)).toBe(0)
  })

  test('is remembered only while it lacks something', () => {
    const { clock, accounts } = open()
    for (let type = 0; type < 1_000; type += 1) {
      accounts.of(`type.${String(type)}`).book(10)
      clock.advance(10)
    }
    expect(accounts.size).toBeLessThanOrEqual(11)
    clock.advance(10_000)
    accounts.of('email.send').book(1)
    expect(accounts.size).toBe(1)
  })
})
