/** `curfew doctor`: what is wrong with the settings, the data and the server, and what helps. Changes nothing. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { formatDuration, lengthInWords, millis, shortHeartbeat } from '@curfew/core'
import { checkFile } from './check.ts'
import { clean } from './frame/clean.ts'
import type { Call } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { Refused, Remote } from './frame/remote.ts'
import { countText } from './frame/rows.ts'
import { inkOn } from './journey-chart.ts'
import { openToOthers, placeOf } from '../open-store.ts'
import type { Loaded, Settings } from '../settings.ts'
import { VERSION } from '../version.ts'

export interface Finding {
  readonly what: string
  readonly fix: string
}

export interface Checkup {
  readonly findings: readonly Finding[]
  /** What was looked at and is well. */
  readonly fine: readonly string[]
}

const MIN_FREE_BYTES = 1024 ** 3
const MIN_FREE_SHARE = 0.05
const MAX_OFFSET_MS = 1_000
const BEATS = 3

// ---- Settings ----

export function checkSettings({ values, warnings }: Loaded): Checkup {
  const findings = warnings.map((what): Finding => ({ what, fix: 'remove the variable, or correct its name' }))
  const interval = Number(values['workers.heartbeat-interval'])
  const silence = Number(values['workers.heartbeat-timeout'])
  if (silence < BEATS * interval)
    findings.push({
      what: `workers.heartbeat-timeout ${formatDuration(silence)} is shorter than ${String(BEATS)} beats of ${formatDuration(interval)}: a short pause counts as a death`,
      fix: `--workers-heartbeat-timeout ${formatDuration(BEATS * interval)}`,
    })
  const stall = values['limits.defaults.heartbeat-timeout']
  const short = shortHeartbeat(
    'limits.defaults.heartbeat-timeout',
    millis(Number(stall)),
    'a setting',
    millis(interval),
  )
  if (short !== null)
    findings.push({ what: short, fix: `--limits-defaults-heartbeat-timeout ${formatDuration(BEATS * interval)}` })
  findings.push(...impossibleLimits(values))
  return { findings, fine: findings.length === 0 ? ['settings'] : [] }
}

const LIMITS = ['timeout', 'grace-period', 'heartbeat-timeout', 'visibility-timeout', 'total-timeout', 'enqueue-ttl']

function impossibleLimits(values: Settings): Finding[] {
  const of = (kind: 'defaults' | 'caps', name: string): number | null => {
    const value = values[`limits.${kind}.${name}`] ?? null
    return value === null ? null : Number(value)
  }
  const findings = LIMITS.flatMap((name): Finding[] => {
    const [byDefault, cap] = [of('defaults', name), of('caps', name)]
    if (byDefault === null || cap === null || byDefault <= cap) return []
    return [
      {
        what: `limits.defaults.${name} ${formatDuration(byDefault)} is longer than its cap ${formatDuration(cap)}: every default is cut`,
        fix: `--limits-defaults-${name} ${formatDuration(cap)}, or raise --limits-caps-${name}`,
      },
    ]
  })
  const total = of('defaults', 'total-timeout')
  const timeout = of('defaults', 'timeout')
  const ttl = of('defaults', 'enqueue-ttl')
  if (total !== null && timeout !== null && timeout > total)
    findings.push({
      what: `limits.defaults.timeout ${formatDuration(timeout)} is longer than limits.defaults.total-timeout ${formatDuration(total)}: no attempt gets its whole time`,
      fix: `--limits-defaults-timeout ${formatDuration(total)} or shorter`,
    })
  if (total !== null && ttl !== null && ttl >= total)
    findings.push({
      what: `limits.defaults.enqueue-ttl ${formatDuration(ttl)} is not shorter than limits.defaults.total-timeout ${formatDuration(total)}: it never ends a job`,
      fix: 'make the TTL shorter, or leave it out',
    })
  return findings
}

// ---- Data ----

export function checkData({ values: settings, sources }: Loaded): Checkup {
  const place = placeOf(settings)
  if (place.kind !== 'file') return { findings: [], fine: [] }
  if (!existsSync(place.file)) {
    // A command that only asks a server elsewhere needs no folder here.
    if (sources['data'] === 'default') return { findings: [], fine: [] }
    const findings = folderFindings(dirname(place.file))
    return { findings, fine: findings.length === 0 ? ['data folder', 'disk'] : [] }
  }
  const findings: Finding[] = []
  const damage = damageFinding(settings)
  if (damage !== null) findings.push(damage)
  const locked = [dirname(place.file), place.file].find((path) => !isAllowed(path, constants.W_OK))
  if (locked !== undefined) findings.push(unwritable(locked))
  const exposed = openToOthers(settings)
  if (exposed !== null) findings.push({ what: exposed, fix: `chmod 700 ${dirname(place.file)}` })
  const space = spaceFinding(place.file)
  if (space !== null) findings.push(space)
  return { findings, fine: findings.length === 0 ? ['data file', 'disk'] : [] }
}

/** Of a folder in which the data file is still to be made. */
function folderFindings(folder: string): Finding[] {
  let there = folder
  while (!existsSync(there)) there = dirname(there)
  if (!statSync(there).isDirectory())
    return [{ what: `${there} is not a folder, so no data can be kept in ${folder}`, fix: 'name another with --data' }]
  if (!isAllowed(there, constants.W_OK | constants.X_OK)) return [unwritable(there)]
  const space = spaceFinding(join(there, 'curfew.db'))
  return space === null ? [] : [space]
}

const unwritable = (path: string): Finding => ({
  what: `${path} cannot be written by this user`,
  fix: `chown it to the user that runs the server, or name another folder with --data`,
})

/** What is mounted for reading only is refused to everyone. */
function isAllowed(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

/** A file that cannot even be opened is a finding too. */
function damageFinding(settings: Settings): Finding | null {
  try {
    const { isSound, text } = checkFile(settings, undefined)
    if (isSound) return null
    const [what = '', ...rest] = text.split('\n')
    return {
      what,
      fix: rest
        .filter((line) => /^ {2}\d/.test(line))
        .map((line) => line.trim())
        .join(' '),
    }
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error)
    return { what, fix: 'restore the newest backup; see curfew check' }
  }
}

function spaceFinding(file: string): Finding | null {
  const { bavail, blocks, bsize } = statfsSync(dirname(file))
  return shortOfSpace(bavail * bsize, blocks * bsize, file)
}

/** A full disk ends service: what cannot be written is refused. */
export function shortOfSpace(freeBytes: number, allBytes: number, file: string): Finding | null {
  if (freeBytes >= MIN_FREE_BYTES && freeBytes >= allBytes * MIN_FREE_SHARE) return null
  const free = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB`
  return {
    what: `only ${free} are free where ${file} lies`,
    fix: 'free space, move the data, or shorten --retention-completed and --retention-discarded',
  }
}

// ---- A server ----

interface Health {
  readonly status: string
  readonly server_version: string
  readonly server_time: string
  readonly clock_offset_ms?: number
  readonly backend: { readonly status?: string; readonly reason?: string }
}

interface QueueView {
  readonly name: string
  readonly paused: boolean
  readonly counts: { readonly available: number }
}

interface WorkerView {
  readonly worker_id: string
  readonly state: string
  readonly queues: readonly string[] | null
  readonly last_seen_at: string
}

export async function checkServer(server: Remote, wallMs: () => number): Promise<Checkup> {
  const fine: string[] = []
  const askedMs = wallMs()
  const health = (await server.ask('GET', '/ojs/v1/health')).body as Health
  const heardMs = wallMs()
  const findings: Finding[] = []
  if (health.status !== 'ok')
    findings.push({
      what: `the store is ${health.backend.status ?? 'not well'}: ${health.backend.reason ?? 'it does not say why'}`,
      fix: 'see the log of the server',
    })
  if (health.server_version !== VERSION)
    findings.push({
      what: `the server has version ${health.server_version}, this command ${VERSION}`,
      fix: 'use the same version of both',
    })
  if (findings.length === 0) fine.push(`server ${health.server_version}`)
  // The server looked at its clock somewhere between the question and the answer.
  const at = Date.parse(health.server_time)
  const offMs = at < askedMs ? askedMs - at : Math.max(0, at - heardMs)
  const ownMs = Math.abs(health.clock_offset_ms ?? 0)
  if (Math.max(offMs, ownMs) > MAX_OFFSET_MS)
    findings.push({
      what: `the clocks differ by ${lengthInWords(Math.round(Math.max(offMs, ownMs)))}`,
      fix: 'let NTP or chrony set the clocks of both machines',
    })
  else fine.push('clock')
  const work = await findingsOfWork(server, at)
  if (work.length === 0) fine.push('queues', 'types')
  return { findings: [...findings, ...work], fine }
}

const SILENT_MS = 20_000

async function findingsOfWork(server: Remote, nowMs: number): Promise<Finding[]> {
  const { queues } = (await server.call('GET', '/ojs/v1/queues?limit=200')) as { queues: readonly QueueView[] }
  const { workers } = (await server.call('GET', '/ojs/v1/workers?limit=200')) as { workers: readonly WorkerView[] }
  const { items: types } = (await server.call('GET', '/api/v1/job-types')) as { items: readonly { type: string }[] }
  const { items: late } = (await server.call('GET', '/ojs/v1/admin/at-risk?limit=200')) as { items: readonly unknown[] }
  const findings: Finding[] = []
  const alive = workers.filter(({ state }) => state !== 'dead' && state !== 'terminated')
  for (const { name, paused, counts } of queues) {
    if (counts.available === 0) continue
    if (paused)
      findings.push({
        what: `queue ${name} is paused with ${countText(counts.available, 'job')} waiting`,
        fix: `curfew queues resume ${name}`,
      })
    else if (alive.length > 0 && !alive.some(({ queues: served }) => served === null || served.includes(name)))
      findings.push({
        what: `no worker serves queue ${name}, where ${countText(counts.available, 'job')} wait`,
        fix: `start a worker for ${name}`,
      })
  }
  for (const { worker_id: id, last_seen_at: seen } of alive)
    if (nowMs - Date.parse(seen) > SILENT_MS)
      findings.push({
        what: `worker ${id} was last heard ${lengthInWords(Math.round((nowMs - Date.parse(seen)) / 1_000) * 1_000)} ago`,
        fix: `look at its process; curfew workers show ${id}`,
      })
  for (const { type } of types) findings.push(...(await findingsOfType(server, type)))
  if (late.length > 0)
    findings.push({ what: `${countText(late.length, 'job')} will be late at the present pace`, fix: 'curfew at-risk' })
  return findings
}

async function findingsOfType(server: Remote, type: string): Promise<Finding[]> {
  const planned = await server.ask('POST', '/ojs/v1/jobs/plan', { type, args: [] })
  // A type may refuse jobs without arguments.
  if (planned.status !== 200) return []
  const { attempts } = planned.body as { attempts: readonly { fits: boolean }[] }
  const lost = attempts.filter(({ fits }) => !fits).length
  if (lost === 0) return []
  return [
    {
      what: `type ${type}: ${String(lost)} of ${String(attempts.length)} attempts cannot fit into its total_timeout`,
      fix: `curfew types set ${type} --total-timeout LENGTH, longer than all attempts with their backoffs`,
    },
  ]
}

// ---- The command ----

export async function runDoctor({ flags, terminal, settings }: Call): Promise<number> {
  const loaded = settings()
  const parts = [checkSettings(loaded), checkData(loaded)]
  const url = flags.text('url')
  const named = {
    ...flags,
    text: (name: string) => (name === 'token' ? textOf(loaded.values['token']) : flags.text(name)),
  }
  try {
    parts.push(await checkServer(new Remote(named, terminal), () => Date.now()))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    // Without --url there need not be a server.
    const isNamed = url !== undefined || terminal.env['CURFEW_URL'] !== undefined
    if (isNamed)
      parts.push({
        findings: [{ what: error.message, fix: 'start the server, or correct --url and --token' }],
        fine: [],
      })
    else parts.push({ findings: [], fine: ['(no server asked)'] })
  }
  const findings = parts.flatMap((part) => part.findings)
  const fine = parts.flatMap((part) => part.fine)
  if (flags.has('json')) terminal.write(JSON.stringify({ findings, fine }, null, 2))
  else {
    const ink = inkOn(terminal)
    if (fine.length > 0) terminal.write(fine.map((name) => ink.green(`✓ ${name}`)).join('  '))
    for (const { what, fix } of findings) terminal.write(`${ink.red('✗')} ${clean(what)}\n    fix: ${clean(fix)}`)
  }
  return findings.length === 0 ? EXIT.fine : EXIT.findings
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
