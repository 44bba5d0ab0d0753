/** The built command as a process: a pipe, a demo that ends by itself, a backup of a server that runs. */
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { curfew, lines, ServerProcess, temporaryDirectory } from './server-process.ts'

test('demo shows every kind of ending, and ends by itself with 0', async () => {
  const { code, stdout, stderr } = await curfew(['demo', '--fast'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  for (const ending of [
    /^mail\.send .* completed +completed/m,
    /^report\.build .* discarded +timeout 10 s/m,
    /^video\.encode .* discarded +stalled 10 s/m,
    /^image\.resize .* completed +completed/m,
    /^coupon\.apply .* discarded +enqueue_ttl/m,
    /^invoice\.print .* completed +completed/m,
    /^approval .* failed +timeout/m,
  ])
    expect(stdout).toMatch(ending)
})

describe('a server that runs', () => {
  test('is operated from a script: ids in a pipe, JSON, exit codes', async () => {
    const server = await ServerProcess.start()
    const env = { CURFEW_URL: server.url }
    const { id } = await server.enqueue({ type: 'a.very.long.type.of.a.job.that.no.terminal.could.show.in.one.line' })
    expect(await curfew(['jobs', 'list', '-o', 'ids'], env)).toMatchObject({ code: 0, stdout: `${String(id)}\n` })
    // Nothing is cut and nothing is coloured in a pipe.
    const { stdout } = await curfew(['jobs', 'list'], env)
    expect(stdout).toMatch(/in\.one\.line +available/)
    expect(stdout).not.toContain('\u001b')
    expect(await curfew(['jobs', 'cancel', String(id)], env)).toMatchObject({
      code: 2,
      stderr:
        'Would cancel 1 job (available 1; default 1).\n' +
        'curfew: Cancel 1 job? Nothing was done. Repeat the command with --yes.\n',
    })
    expect(await curfew(['jobs', 'cancel', String(id), '--yes'], env)).toMatchObject({ code: 0 })
    expect((await curfew(['jobs', 'watch', String(id)], env)).code).toBe(3)
    expect((await curfew(['jobs', 'show', 'x'], env)).code).toBe(1)
    await server.stop()
  })

  test('is backed up and restored', async () => {
    const server = await ServerProcess.start()
    const { id } = await server.enqueue()
    const copy = join(temporaryDirectory(), 'copy.db')
    expect(await curfew(['backup', copy, '--data', server.data])).toMatchObject({ code: 0, stdout: '' })
    await server.enqueue()
    await server.stop()
    const restored = join(temporaryDirectory(), 'restored')
    mkdirSync(restored)
    copyFileSync(copy, join(restored, 'curfew.db'))
    const again = await ServerProcess.start({ data: restored })
    const found = await curfew(['jobs', 'list', '-o', 'ids'], { CURFEW_URL: again.url })
    expect(lines(found.stdout)).toEqual([String(id)])
    await again.stop()
  })
})
