/** Jobs as tasks of a journey. What a job may ask for is what an enqueue request may: it is read as one. */
import { instant } from '../../time/clock.ts'
import type { Mapping } from '../../diagnostics.ts'
import { readEnqueue } from '../../wire/job/enqueue.ts'
import { OjsError } from '../../errors.ts'
import type { JobTask, StateId } from '../definition.ts'
import { isMapped, needMapper, readVariable, warnIfNeverReached, type Reading } from './reading.ts'

/** Our names, and those of an enqueue request. */
const MEMBERS: Readonly<Record<string, string>> = {
  queue: 'queue',
  priority: 'priority',
  timeoutSec: 'timeout',
  totalTimeoutSec: 'total_timeout',
  gracePeriodSec: 'grace_period',
  timeoutMode: 'x_on_timeout',
  retry: 'retry',
}
const KEYS = ['kind', 'type', 'args', 'mode', 'detach', 'resultVar', ...Object.keys(MEMBERS)]

export function readJob(reading: Reading, task: Mapping, next: StateId): JobTask {
  if (task.has('onTimeout'))
    task.field('onTimeout').errorAtKey('JOB-1', 'onTimeout means nothing here; timeoutMode is retry or discard.')
  task.at.members([...KEYS, 'onTimeout'])
  const request: Record<string, unknown> = {}
  for (const [key, member] of Object.entries(MEMBERS)) {
    const field = task.get(key)
    // To an enqueue request null is as good as nothing; here it is a slip.
    if (field?.value === null) field.refuse('JOB-1', 'given a value, or left out')
    else if (field !== null) request[member] = field.value
  }
  const jobType = task.need('type', 'JOB-1')?.text('JOB-1', { expected: 'the type of the job' }) ?? null
  if (jobType !== null) checkRequest(task, jobType, request)
  const mode = task.get('mode')?.oneOf(['await', 'notify'], 'JOB-1') ?? 'await'
  const detach = task.get('detach')?.flag('JOB-1') ?? false
  if (detach && mode !== 'notify')
    task.field('detach').error('JOB-1', 'detach goes with mode notify only: a run cannot wait longer than it lasts.')
  if (mode === 'notify')
    task.get('resultVar')?.errorAtKey('JOB-1', 'resultVar does not go with mode notify: there is no result.')
  if (!detach) {
    for (const key of ['timeoutSec', 'totalTimeoutSec']) {
      const length = task.get(key)
      if (typeof length?.value === 'number') warnIfNeverReached(reading, length, length.value * 1000)
    }
  }
  return {
    type: 'job',
    jobType: jobType ?? '',
    request,
    args: readArgs(reading, task),
    mode,
    detach,
    resultVar: readVariable(task.get('resultVar')),
    next,
  }
}

function readArgs(reading: Reading, task: Mapping): JobTask['args'] {
  const args = task.get('args')
  if (args === null) return { literal: '[]' }
  if (isMapped(args.value)) {
    const mapping = args.mapping()
    if (mapping !== null) return { mapper: needMapper(reading, mapping) }
  }
  if (!Array.isArray(args.value)) args.refuse('JOB-1', 'a list, or {mapper: {lang, expr}}')
  return { literal: JSON.stringify(args.value) }
}

/** One complaint at a time is what a request gets; the member it is about is put right, and it is asked again. */
function checkRequest(task: Mapping, type: string, asked: Readonly<Record<string, unknown>>): void {
  const request: Record<string, unknown> = { type, ...asked }
  for (let left = Object.keys(MEMBERS).length + 1; left > 0; left -= 1) {
    const complaint = complaintOf(request)
    if (complaint === null) return
    const name = String(complaint.details['field']).split(/[.[]/)[0] ?? ''
    const key = name === 'type' ? name : Object.keys(MEMBERS).find((known) => MEMBERS[known] === name)
    const message = inOurWords(complaint.message)
    if (key === undefined) task.at.error('JOB-1', message)
    else task.get(key)?.error('JOB-1', message)
    if (key === undefined || key === 'type') request['type'] = 'any'
    Reflect.deleteProperty(request, name === 'type' ? '' : name)
  }
}

function complaintOf(request: Readonly<Record<string, unknown>>): OjsError | null {
  const fields = { ...request, args: [] }
  try {
    readEnqueue(JSON.stringify(fields), fields, instant(0))
    return null
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
}

function inOurWords(message: string): string {
  let text = message
  for (const [key, member] of Object.entries(MEMBERS))
    if (member !== key) text = text.replaceAll(new RegExp(`\\b${member}\\b`, 'g'), key)
  return text
}
