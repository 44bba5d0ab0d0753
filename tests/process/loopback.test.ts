/** `npm test` runs in a network namespace that has only loopback: what a test makes the server call stays here. */
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'

const isLoopbackOnly = process.env['CURFEW_TESTS_LOOPBACK_ONLY'] === '1'

test.runIf(isLoopbackOnly)('the tests see no network interface but loopback', () => {
  const addresses = Object.values(networkInterfaces()).flatMap((some) => some ?? [])
  expect(addresses.filter(({ internal }) => !internal)).toEqual([])
})

test.runIf(isLoopbackOnly)('a connection to another machine fails at once', async () => {
  // An address that is reserved for documentation (RFC 5737).
  const socket = connect({ host: '192.0.2.1', port: 9 })
  const code = await new Promise((resolve) => {
    socket.on('connect', () => {
      resolve('connected')
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      resolve(error.code)
    })
  })
  socket.destroy()
  expect(code).toBe('ENETUNREACH')
})
