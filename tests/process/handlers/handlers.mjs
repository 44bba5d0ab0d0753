// Handlers for the tests of isolates: each does one thing that a handler should not do, or may.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { threadId } from 'node:worker_threads'
import { DeadlineError, defineHandler, defineJob } from '@curfew/sdk'

const here = { pid: process.pid, threadId }

export function add(_ctx, [a, b]) {
  return a + b
}

/** Which isolate this is, and how often it has been used. */
let used = 0
export function whereAmI() {
  used += 1
  return { ...here, used }
}

export function spin() {
  spinForever()
}

export function logAndSpin(ctx) {
  ctx.log('begins', { n: 1 })
  ctx.log('spins')
  spinForever()
}

/** An endless loop out of which some versions of V8 optimise the check for interrupts. */
export async function reportAndFill(ctx) {
  await ctx.progress(0, 'here', here)
  fillForever()
}

function fillForever() {
  let x
  for (;;) x = new Array(1_000).fill(x?.length)
}

export async function reportAndSpin(ctx) {
  await ctx.progress(0, 'here', here)
  spinForever()
}

function spinForever() {
  let x = 0
  for (;;) x = (x * 31 + 7) % 1_000_003
}

let started = 0
export function countStarts() {
  started += 1
  return started
}

export const timeLeft = (ctx) => (ctx.remaining() === Infinity ? 'all' : 'some')

/** Waits for its signal, and tells what it saw. */
export async function waitForSignal(ctx) {
  const before = ctx.remaining()
  await ctx.progress(0)
  if (!ctx.signal.aborted) await once(ctx.signal, 'abort')
  const { reason } = ctx.signal
  return {
    before,
    after: ctx.remaining(),
    name: reason.name,
    kind: reason.kind,
    source: reason.source,
    isDeadline: reason instanceof DeadlineError,
  }
}

/** Cleans up in the grace, with budgets. */
export async function cleanUp(ctx) {
  const before = ctx.graceRemaining()
  await ctx.progress(0)
  if (!ctx.signal.aborted) await once(ctx.signal, 'abort')
  const left = ctx.graceRemaining()
  const cleaned = await ctx.withBudget('5s', (signal) => !signal.aborted).catch((error) => error.code)
  const kind = await ctx.withBudget('20ms', () => new Promise(() => {})).catch((error) => error.kind)
  return { before, left, cleaned, kind }
}

/** Cleans up for longer than it may. */
export async function ignoreSignal(ctx) {
  await ctx.progress(0, 'here', here)
  await once(ctx.signal, 'abort')
  await new Promise(() => {})
}

export async function startBusyGrandchild(ctx) {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./busy-program.mjs', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  await ctx.progress(0, 'here', { ...here, grandchild: child.pid })
  await new Promise(() => {})
}

/** Returns, and leaves a process behind. */
export async function leaveGrandchild() {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./busy-program.mjs', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return { ...here, grandchild: child.pid }
}

/** Goes by itself, and leaves a process behind. */
export async function exitWithGrandchild(ctx) {
  const place = await leaveGrandchild()
  await ctx.progress(0, 'here', place)
  process.exit(0)
}

export async function startPoliteGrandchild(ctx) {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./polite-program.mjs', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  await ctx.progress(0)
  const [farewell] = await once(child.stdout, 'data')
  await ctx.checkpoint(String(farewell).trim())
  await new Promise(() => {})
}

export function exit() {
  process.exit(7)
}

export async function throwOutside() {
  setTimeout(() => {
    throw new Error('no handler catches this')
  }, 1)
  await new Promise(() => {})
}

export async function rejectOutside() {
  void Promise.reject(new Error('no code awaits this'))
  await new Promise(() => {})
}

/** Returns, and falls over what it left a little later. */
export function leaveBomb() {
  setTimeout(() => process.exit(3), 20)
  return here
}

/** Some 600 MB each. */
export function fillWithArrays() {
  const kept = []
  while (kept.length < 75_000) kept.push(new Array(1_000).fill(kept.length))
  return kept.length
}

export function fillWithObjects() {
  const kept = []
  while (kept.length < 6_000_000) kept.push({ at: kept.length, list: [1] })
  return kept.length
}

export function crash() {
  process.kill(process.pid, 'SIGSEGV')
  spinForever()
}

export const returnFunction = () => ({ callback: () => {} })
export const returnCircle = () => {
  const circle = {}
  circle.self = circle
  return circle
}
export const returnBigInt = () => 1n
export const returnDate = () => ({ at: new Date(0), nothing: undefined })
export const returnNothing = () => undefined
export const fail = () => {
  throw Object.assign(new TypeError('no such codec'), { code: 'codec' })
}

export async function useAll(ctx, [name]) {
  await ctx.progress(0.5, 'half', { name })
  await ctx.checkpoint({ frame: 400 })
  await ctx.heartbeat()
  const job = await ctx.enqueue('image.thumbnail', [name], { inheritDeadline: true })
  const refusal = await ctx.enqueue('image.refused', []).catch((error) => error)
  const { jobId, type, queue, attempt, lease, maxAttempts, meta, args, lastCheckpoint } = ctx
  return {
    seen: { jobId, type, queue, attempt, lease, maxAttempts, meta, args, lastCheckpoint },
    job,
    refusal: { name: refusal.name, status: refusal.status, code: refusal.code },
  }
}

/** Leaves something running that speaks when the attempt is over; the next run in the same isolate tells how it went. */
let late = null
export async function speakLate(ctx) {
  if (late !== null) return late
  late = 'nothing yet'
  setTimeout(async () => {
    late = await ctx.checkpoint('late').then(
      () => 'accepted',
      (error) => error.code,
    )
  }, 5)
  return late
}

export const notAHandler = 42

export function print() {
  process.stdout.write('to stdout\n')
  process.stderr.write('to stderr\n')
  return null
}

const even = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      Number.isInteger(value?.size) && value.size % 2 === 0
        ? { value }
        : { issues: [{ message: 'not even', path: ['size'] }] },
  },
}
export const defined = defineHandler(defineJob('image.scale', { input: even, output: even }), (_ctx, { size }) => ({
  size: size === 4 ? 5 : size,
}))
