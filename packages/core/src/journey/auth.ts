/**
 * How a call proves who makes it. A definition names a secret and never holds one: its value is known to the server
 * alone, and is put into the request when the call is made.
 */
import type { Field, Mapping } from '../diagnostics.ts'
import { headerProblem } from './call.ts'
import type { CallAuth } from './definition.ts'

const CODE = 'AUTH-1'
const SECRET_REF = /^(?:secret:\/\/)?([A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?)$/
const EXPECTED = 'the name of a secret: letters, digits, ".", "_", "/" and "-", such as payments/api-token'

export type AuthPolicies = ReadonlyMap<string, CallAuth | null>

/** `auth` of a call: a secret of its own, or a policy. */
export function readAuth(policies: AuthPolicies, task: Mapping): CallAuth | null {
  const field = task.get('auth')
  const auth = field?.members(['secretRef', 'scheme', 'username', 'header', 'policyRef'], { code: CODE }) ?? null
  if (field === null || auth === null) return null
  const policy = auth.get('policyRef')
  if (policy === null) return readSecret(auth)
  for (const key of ['secretRef', 'scheme', 'username', 'header'])
    auth.get(key)?.errorAtKey(CODE, `Give policyRef or ${key}, not both.`)
  const id = policy.text(CODE)
  if (id === null || policies.has(id)) return id === null ? null : (policies.get(id) ?? null)
  policy.error(CODE, `There is no policy ${JSON.stringify(id)} in spec.policies.httpClientAuth.definitions.`)
  return null
}

function readSecret(auth: Mapping): CallAuth | null {
  const secretRef = readSecretRef(auth.need('secretRef', CODE))
  const [header, scheme, username] = [auth.get('header'), auth.get('scheme'), auth.get('username')]
  if (header !== null) {
    for (const other of [scheme, username])
      other?.errorAtKey(CODE, `${other.name} does not go with header: there the secret is sent as it is.`)
    return secretRef === null ? null : { secretRef, header: readHeaderName(header), scheme: 'plain', username: null }
  }
  const kind = scheme?.oneOf(['bearer', 'basic'], CODE) ?? 'bearer'
  const user = username?.text(CODE, { pattern: /^[^:]+$/, expected: 'a name without ":"' }) ?? null
  if (kind === 'basic' && username === null) auth.at.error(CODE, 'username is missing: scheme basic needs it.')
  if (kind === 'bearer') username?.errorAtKey(CODE, 'username goes with scheme basic only.')
  return secretRef === null ? null : { secretRef, header: 'authorization', scheme: kind, username: user }
}

export function readSecretRef(field: Field | null): string | null {
  const text = field?.text(CODE, { pattern: SECRET_REF, expected: EXPECTED }) ?? null
  return text === null ? null : (SECRET_REF.exec(text)?.[1] ?? null)
}

function readHeaderName(field: Field): string {
  const name = field.text(CODE) ?? ''
  const problem = name === '' ? null : headerProblem(name)
  if (problem !== null) field.error(CODE, `The header ${JSON.stringify(name)} ${problem}.`)
  return name.toLowerCase()
}

/** `spec.policies.httpClientAuth`. A policy is used by the calls that name it, and by no others. */
export function readAuthPolicies(field: Field | null): AuthPolicies {
  const known = field?.members(['default', 'definitions'], { code: CODE }) ?? null
  const policies = new Map(
    known
      ?.get('definitions')
      ?.entries(CODE)
      .map(([id, entry]) => [id, readAuthPolicy(entry)]),
  )
  const named = known?.get('default') ?? null
  const id = named?.text(CODE) ?? null
  if (id !== null && !policies.has(id)) named?.error(CODE, `There is no policy ${JSON.stringify(id)} in definitions.`)
  return policies
}

function readAuthPolicy(field: Field): CallAuth | null {
  const kind = field.mapping(CODE)?.need('kind', CODE) ?? null
  if (kind === null) return null
  if (kind.value !== 'bearerStatic') {
    kind.error(CODE, 'kind must be bearerStatic; oauth2ClientCredentials and mtlsClient are not supported here.')
    return null
  }
  const secretRef = readSecretRef(field.members(['kind', 'tokenRef'], { code: CODE })?.need('tokenRef', CODE) ?? null)
  return secretRef === null ? null : { secretRef, header: 'authorization', scheme: 'bearer', username: null }
}
