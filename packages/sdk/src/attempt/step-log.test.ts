import { instant, type StoredStep } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { InputError, RequestError } from '../errors.ts'
import { StepLog } from './step-log.ts'

const step = (name: string, result?: unknown): StoredStep => ({
  name,
  position: 0,
  isOrdered: true,
  attempt: 1,
  from: instant(0),
  to: instant(0),
  isSleep: false,
  ...(result === undefined ? {} : { result }),
})

function refusal(status: number, details: Readonly<Record<string, unknown>> = {}): RequestError {
  const rest = { retryable: false, hint: null, requestId: null, retryAfterMs: null }
  return new RequestError({ code: 'payload_too_large', message: 'no', details, status, ...rest })
}

/** A log whose server stores documents, and refuses all of them while `refuse` has set an error. */
function stage(): { log: StepLog; saved: unknown[]; refuse: (error: Error | null) => void } {
  const saved: unknown[] = []
  let error: Error | null = null
  const log = new StepLog([step('known', 1)], null, async (document) => {
    if (error !== null) throw error
    saved.push(document)
  })
  return { log, saved, refuse: (next) => (error = next) }
}

describe('what an attempt saves', () => {
  test('is one document: what earlier attempts stored, its own steps, its own checkpoint', async () => {
    const { log, saved } = stage()
    await log.step(step('charge', 2))
    await log.checkpoint({ page: 2 })
    expect(saved.at(-1)).toMatchObject({
      $curfew_steps: [
        { name: 'known', result: 1 },
        { name: 'charge', result: 2 },
      ],
      state: { page: 2 },
    })
  })

  test('a step that is too large is refused with its size and the limit, and is not sent again', async () => {
    const { log, saved, refuse } = stage()
    refuse(refusal(413, { max_bytes: 1_048_576 }))
    const error = await log.step(step('read', 'x'.repeat(10))).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'StepError', code: 'steps_too_large', step: 'read', retryable: false })
    expect((error as Error).message).toContain('12 characters')
    expect((error as Error).message).toContain('1048576 bytes')
    refuse(null)
    await log.checkpoint(7)
    expect(saved).toMatchObject([{ $curfew_steps: [{ name: 'known' }], state: 7 }])
    expect(JSON.stringify(saved)).not.toContain('read')
  })

  test('a checkpoint that was refused does not go along with the next step', async () => {
    const { log, saved, refuse } = stage()
    await log.checkpoint('small')
    refuse(refusal(413))
    await log.checkpoint('too large').catch(() => {})
    refuse(null)
    await log.step(step('charge'))
    expect(saved.at(-1)).toMatchObject({ state: 'small' })
  })

  test('a checkpoint cannot hold the member that steps are stored under', async () => {
    await expect(stage().log.checkpoint({ $curfew_steps: [] })).rejects.toBeInstanceOf(InputError)
  })

  test('a step of middleware and one of the handler cannot share a name', async () => {
    await expect(stage().log.step(step('known'))).rejects.toMatchObject({ code: 'step_repeated' })
  })
})
