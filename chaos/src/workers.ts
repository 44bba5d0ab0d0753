/**
 * Worker processes. Some live in a network namespace of their own, tied to this one by a pair of virtual interfaces, so that
 * their link can be cut as a cable is: no side learns of it.
 */
import { spawnSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Child, until } from './child.ts'
import { monotonicMs } from './journal.ts'

const READY_MS = 60_000

export interface WorkerPlan {
  readonly kind: 'plain' | 'sdk'
  readonly journal: string
  /** Addresses of the servers as seen from this host, and of a balancer before them all. */
  readonly ports: readonly number[]
  readonly balancer: number
  readonly isApart: boolean
}

/** When a process stood still; the machine's monotonic clock. */
export interface Standstill {
  readonly who: string
  readonly from: number
  to: number
}

let started = 0

export class WorkerProcess {
  readonly who: string
  readonly plan: WorkerPlan
  readonly #child: Child
  readonly #wire: string | null
  isHurt = false

  private constructor(who: string, plan: WorkerPlan, child: Child, wire: string | null) {
    this.who = who
    this.plan = plan
    this.#child = child
    this.#wire = wire
  }

  static async start(plan: WorkerPlan): Promise<WorkerProcess> {
    started += 1
    const net = started % 250
    const who = `${plan.kind}-${String(started)}`
    const host = plan.isApart ? `10.77.${String(net)}.1` : '127.0.0.1'
    const urls = plan.ports.map((port) => `http://${host}:${String(port)}`)
    const env = {
      URLS: JSON.stringify(urls),
      URL: `http://${host}:${String(plan.balancer)}`,
      JOURNAL: plan.journal,
      WHO: who,
    }
    const script = fileURLToPath(new URL(`./${plan.kind}-worker.js`, import.meta.url))
    const wire = plan.isApart ? `cf${String(process.pid % 10_000)}x${String(net)}` : null
    const child = new Child(wire === null ? [process.execPath, script] : apart(wire, net, script), env)
    if (wire !== null) connect(wire, net, child.pid)
    await until(`${who} is ready`, () => child.stdout.includes('ready') || child.isGone, READY_MS)
    if (child.isGone) throw new Error(`${who} ended at once:\n${child.stderr}`)
    return new WorkerProcess(who, plan, child, wire)
  }

  get isApart(): boolean {
    return this.#wire !== null
  }

  freeze(): Standstill {
    this.#child.signal('SIGSTOP')
    return { who: this.who, from: monotonicMs(), to: Infinity }
  }

  thaw(standstill: Standstill): void {
    this.#child.signal('SIGCONT')
    standstill.to = monotonicMs()
  }

  cut(isDown: boolean): void {
    if (this.#wire !== null && !this.#child.isGone) ip('link', 'set', `${this.#wire}a`, isDown ? 'down' : 'up')
  }

  kill(): Promise<void> {
    return this.#child.kill()
  }

  stop(): Promise<boolean> {
    return this.#child.stop()
  }
}

/** Whether processes can have networks of their own here. */
export function canLiveApart(): boolean {
  const made = ip('link', 'add', 'cfprobea', 'type', 'veth', 'peer', 'name', 'cfprobeb')
  if (made) ip('link', 'del', 'cfprobea')
  return made && spawnSync('unshare', ['--net', 'true'], { stdio: 'ignore' }).status === 0
}

function apart(wire: string, net: number, script: string): string[] {
  const commands = [
    `until ip link show ${wire}b >/dev/null 2>&1; do sleep 0.05; done`,
    `ip addr add 10.77.${String(net)}.2/24 dev ${wire}b`,
    `ip link set ${wire}b up`,
    'exec "$0" "$@"',
  ]
  return ['unshare', '--net', 'sh', '-c', commands.join(' && '), process.execPath, script]
}

function connect(wire: string, net: number, pid: number): void {
  // Until unshare has run, the process is still in this namespace: the interface would land here.
  const giveUpAt = performance.now() + READY_MS
  while (readlinkSync('/proc/self/ns/net') === readlinkSync(`/proc/${String(pid)}/ns/net`)) {
    if (performance.now() > giveUpAt) throw new Error(`process ${String(pid)} got no network namespace of its own`)
    spawnSync('sleep', ['0.01'])
  }
  ip('link', 'add', `${wire}a`, 'type', 'veth', 'peer', 'name', `${wire}b`, 'netns', String(pid))
  ip('addr', 'add', `10.77.${String(net)}.1/24`, 'dev', `${wire}a`)
  ip('link', 'set', `${wire}a`, 'up')
}

function ip(...args: string[]): boolean {
  return spawnSync('ip', args, { stdio: 'ignore' }).status === 0
}
