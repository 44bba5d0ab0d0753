// Everything measured runs in a process of its own: the server, the baselines, and the client that loads them.
import { fork, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout that this file belongs to. */
export const HERE = fileURLToPath(new URL('../../', import.meta.url))

const children = new Set()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** Ends the child with this process, if it has not ended before. */
export function endsWithUs(child) {
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}

/**
 * A fresh server, as an operator would start it: full durability, its own directory or a database. `root`: a checkout.
 * `channel`: opens one to a preloaded module, for `tell`. `data`: a directory that was filled before; it is removed in the end.
 */
export async function startServer({
  flags = [],
  node = [],
  database = null,
  root = HERE,
  channel = false,
  data = mkdtempSync(join(tmpdir(), 'curfew-bench-')),
} = {}) {
  const main = resolve(root, 'packages/server/dist/cli/main.js')
  const place = database === null ? ['--data', data] : ['--database', database]
  const args = [...node, main, 'serve', '--port', '0', ...place, '--log-level', 'warn', ...flags]
  const launch = () =>
    endsWithUs(
      spawn(process.execPath, args, {
        env: { PATH: process.env.PATH, HOME: process.env.HOME },
        stdio: ['ignore', 'pipe', 'inherit', ...(channel ? ['ipc'] : [])],
      }),
    )
  let child = launch()
  const server = {
    port: await portOf(child),
    data,
    get pid() {
      return child.pid
    },
    cpuMs: () => cpuMs(child.pid),
    /** Ends it in order and keeps its data; `launch` starts it again, on another port. */
    end: () => ended(child, 'SIGTERM'),
    async launch() {
      child = launch()
      server.port = await portOf(child)
    },
    /** Sends a message to the preloaded module; answers what it replies. */
    tell: (message) =>
      new Promise((resolve) => {
        child.once('message', resolve)
        child.send(message)
      }),
    async stop() {
      await ended(child, 'SIGTERM')
      rmSync(data, { recursive: true, force: true })
    },
  }
  return server
}

/** A program of this folder that prints `listening on …` as the server does. */
export async function startProgram(file, args = []) {
  const program = fileURLToPath(new URL(file, import.meta.url))
  const child = endsWithUs(spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] }))
  const port = await portOf(child)
  return { port, pid: child.pid, cpuMs: () => cpuMs(child.pid), stop: () => ended(child, 'SIGKILL') }
}

/** Any module in a process of its own; what it sends as a message can be waited for. */
export function startModule(module, env) {
  const child = fork(fileURLToPath(module), { env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env } })
  const messages = []
  const waiting = []
  const exited = new Promise((resolve) => child.once('exit', resolve))
  child.on('message', (message) => {
    messages.push(message)
    for (const look of waiting.splice(0)) look()
  })
  return {
    signal: (signal) => child.kill(signal),
    exited,
    /** The first message that fits. */
    async said(fits) {
      for (;;) {
        const found = messages.find(fits)
        if (found !== undefined) return found
        await Promise.race([
          new Promise((resolve) => waiting.push(resolve)),
          exited.then(() => Promise.reject(new Error(`a process ended too early: ${module}`))),
        ])
      }
    },
    stop: () => ended(child, 'SIGKILL'),
  }
}

/** A process that makes load: `run(module, name, args)` calls a function there that the module exports. */
export function startLoad() {
  const child = endsWithUs(fork(fileURLToPath(new URL('load-process.mjs', import.meta.url))))
  return {
    run: (module, name, args) =>
      new Promise((resolve, reject) => {
        const gone = (code) => reject(new Error(`load ${name}: the process ended with ${code}`))
        child.once('exit', gone)
        child.once('message', ({ error, value }) => {
          child.off('exit', gone)
          if (error === undefined) resolve(value)
          else reject(new Error(`load ${name}: ${error}`))
        })
        child.send({ module, name, args })
      }),
    stop: () => ended(child, 'SIGKILL'),
  }
}

function portOf(child) {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      said += chunk
      const port = /^listening on http:\/\/\S+:(\d+)\n/.exec(said)?.[1]
      if (port !== undefined) resolve(Number(port))
    })
    child.once('exit', (code) => reject(new Error(`a process ended with ${code} before it listened`)))
  })
}

function ended(child, signal) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    child.once('exit', () => resolve())
    child.kill(signal)
  })
}

/** The memory that a process holds, in bytes; null where the system does not say. */
export function memoryOf(pid) {
  try {
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024
  } catch {
    return null
  }
}

/** What a process has had of the processor, in ms; null where the system does not say. */
export function cpuMs(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const ns = threads.map((id) => Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]))
    return ns.reduce((sum, each) => sum + each, 0) / 1e6
  } catch {
    return cpuMsInSteps(pid)
  }
}

/** The same in steps of 10 ms, where the kernel keeps no finer count. */
function cpuMsInSteps(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return null
  }
}
