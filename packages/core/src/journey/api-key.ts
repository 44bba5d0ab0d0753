/**
 * `apiKeyValidate:v1`: who sent the request that a run goes on with. Keys are compared when the request comes, and only
 * what came of it is kept with the run: the id of the key, or why there is none. So the state that asks finds the same
 * answer on every server, and after a crash, and no key is ever stored.
 */
import type { Field, Mapping } from '../diagnostics.ts'
import { SHAPE } from '../diagnostics.ts'
import { RunFault } from './faults.ts'
import type { ApiKeyCheck, KeySource, StateId } from './definition.ts'
import type { Data } from './run/run.ts'
import { isData, memberOf } from './run/values.ts'
import { readVariable } from './read/reading.ts'

const DEFAULT_PROFILE = 'default'
const PROFILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

export function readApiKeyCheck(task: Mapping, next: StateId): ApiKeyCheck {
  task.at.members(['kind', 'profile', 'source', 'authVar'])
  const profile = task.get('profile')?.text(SHAPE, { pattern: PROFILE, expected: 'the name of a profile' })
  return {
    type: 'apiKeyCheck',
    profile: profile ?? DEFAULT_PROFILE,
    source: readSource(task.get('source')),
    authVar: readVariable(task.get('authVar')) ?? 'auth',
    next,
  }
}

function readSource(field: Field | null): KeySource | null {
  const source = field?.members(['location', 'name']) ?? null
  if (source === null) return null
  const location = source.need('location')?.oneOf(['header', 'query']) ?? 'header'
  const name = source.need('name')?.text(SHAPE, { most: 256 }) ?? ''
  return { location, name: location === 'header' ? name.toLowerCase() : name }
}

/** What came of the key in a request. */
export type KeyVerdict =
  { readonly keyId: string } | { readonly problem: 'missing' | 'invalid' } | { readonly misconfigured: string }

export type KeyVerdicts = Readonly<Record<string, KeyVerdict>>

/** By what a verdict is found again. */
export function checkId({ profile, source }: Pick<ApiKeyCheck, 'profile' | 'source'>): string {
  return source === null ? profile : `${profile} ${source.location} ${source.name}`
}

/** The context after the check. A problem takes the place of what an earlier request has proved, and the other way round. */
export function checkedContext(check: ApiKeyCheck, verdicts: KeyVerdicts, context: Data): Data {
  const verdict = memberOf(verdicts, checkId(check)) as KeyVerdict | undefined
  if (verdict !== undefined && 'misconfigured' in verdict)
    throw new RunFault('APIKEY_CONFIG_INVALID', verdict.misconfigured)
  const known = memberOf(context, check.authVar)
  const apiKey = verdict !== undefined && 'keyId' in verdict ? verdict : { problem: problemOf(verdict) }
  return { ...context, [check.authVar]: { ...(isData(known) ? known : {}), apiKey } }
}

const PROBLEM_TYPE = 'urn:curfew:problem:apikey:'

/** One that a check wrote. */
export function isKeyProblem(problem: Data): boolean {
  return String(memberOf(problem, 'type')).startsWith(PROBLEM_TYPE)
}

function problemOf(verdict: { readonly problem: 'missing' | 'invalid' } | undefined): Data {
  const isInvalid = verdict?.problem === 'invalid'
  return {
    type: `${PROBLEM_TYPE}${isInvalid ? 'invalid' : 'missing'}`,
    title: isInvalid ? 'The API key is not known' : 'An API key is missing',
    status: 401,
    code: isInvalid ? 'APIKEY_INVALID' : 'APIKEY_MISSING',
  }
}
