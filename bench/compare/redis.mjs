// A Redis of its own for a measurement. On Debian, root gets one with apt-get where there is none.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endsWithUs } from '../lib/processes.mjs'

const START_MS = 10_000

/** Answers its version, or null where there is none and none can be installed. */
export function redisVersion() {
  const asked = () => /v=(\S+)/.exec(spawnSync('redis-server', ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1]
  if (asked() === undefined && existsSync('/etc/debian_version') && process.getuid?.() === 0) {
    console.error('Installing Redis with apt-get for this comparison. This happens once.')
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'redis-server']])
      spawnSync('apt-get', ['-q', ...args], { env, stdio: 'ignore' })
  }
  return asked() ?? null
}

export async function startRedis({ appendfsync }) {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-redis-'))
  const port = await freePort()
  const settings = {
    port,
    bind: '127.0.0.1',
    dir: folder,
    save: '',
    appendonly: 'yes',
    appendfsync,
    'maxmemory-policy': 'noeviction',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const child = endsWithUs(spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] }))
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    }
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await ready(child)
  } catch (error) {
    await stop()
    throw error
  }
  return { port, pid: child.pid, stop }
}

function ready(child) {
  return new Promise((resolve, reject) => {
    let said = ''
    const timer = setTimeout(() => reject(new Error(`Redis did not start:\n${said}`)), START_MS)
    child.stdout.setEncoding('utf8').on('data', (text) => {
      said = (said + text).slice(-4_000)
      if (!said.includes('Ready to accept connections')) return
      clearTimeout(timer)
      resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`Redis ended with ${code}:\n${said}`)))
  })
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  probe.close()
  await once(probe, 'close')
  return port
}
