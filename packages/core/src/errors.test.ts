import { describe, expect, test } from 'vitest'
import { notFound } from './errors.ts'

describe('what is not there', () => {
  test.each([
    ['job', 'id', 'finished jobs are removed after their retention time'],
    ['dead letter', 'id', 'dead letters are removed after their retention time'],
    ['workflow', 'id', 'finished workflows are removed after their retention time'],
    ['journey', 'id', 'finished journeys are removed after their retention time'],
    ['delivery', 'id', 'finished deliveries are removed after their retention time'],
  ])('a %s may have been removed', (what, key, removed) => {
    expect(notFound(what, 'x').message).toBe(`There is no ${what} with this ${key}.`)
    expect(notFound(what, 'x').hint).toBe(`Check the ${key}; ${removed}.`)
  })

  test.each([
    ['queue', 'name'],
    ['cron entry', 'name'],
    ['pool', 'name'],
    ['definition', 'name'],
    ['schema', 'name'],
    ['rate limit', 'name'],
    ['job type policy', 'name'],
    ['worker', 'id'],
    ['subscription', 'id'],
    ['step', 'id'],
    ['checkpoint', 'id'],
  ])('a %s is looked for by its %s, and time removes none', (what, key) => {
    expect(notFound(what, 'x').message).toBe(`There is no ${what} with this ${key}.`)
    expect(notFound(what, 'x').hint).toBe(`Check the ${key}.`)
  })
})
