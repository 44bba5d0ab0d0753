/** `curfew token …`: makes, lists, rotates and revokes the tokens of a server, over HTTP. */
import { ROLES } from '@curfew/core'
import { SettingsError } from '../settings.ts'
import { clean } from './frame/clean.ts'
import { EXIT } from './frame/exit.ts'
import type { Call, Command, Group } from './frame/command.ts'
import { confirmed, YES } from './frame/confirm.ts'
import { lengthOf, ONE, SERVER_OPTIONS, type Flags, type Terminal } from './frame/flags.ts'
import { momentsIn, rowsText, type Moments } from './frame/rows.ts'
import { Remote } from './frame/remote.ts'

interface TokenView {
  readonly name: string
  readonly roles: readonly string[]
  readonly state: string
  readonly valid_secrets: number
  readonly old_secret_until: string | null
  readonly created_at: string
  readonly last_used_at: string | null
  readonly token?: string
}

const pathOf = (flags: Flags): string => `/api/v1/tokens/${encodeURIComponent(flags.names[0] ?? '')}`

async function create({ flags, terminal }: Call): Promise<number> {
  const roles = flags.texts('role').flatMap((text) => text.split(','))
  const wrong = roles.find((role) => !ROLES.some((known) => known === role))
  if (roles.length === 0 || wrong !== undefined)
    throw new SettingsError(
      `${wrong === undefined ? '--role is missing' : `--role ${JSON.stringify(wrong)} is not a role`}. Roles are ${ROLES.join(', ')}.`,
    )
  const body = { name: flags.names[0], roles }
  const made = (await new Remote(flags, terminal).call('POST', '/api/v1/tokens', body)) as TokenView
  return show(flags, terminal, made, (when) => issuedText(made, when))
}

async function list({ flags, terminal }: Call): Promise<number> {
  const answer = (await new Remote(flags, terminal).call('GET', '/api/v1/tokens')) as { items: TokenView[] }
  return show(flags, terminal, answer, (when) => listText(answer.items, when))
}

async function rotate({ flags, terminal }: Call): Promise<number> {
  const overlap = flags.text('overlap')
  const body = overlap === undefined ? {} : { overlap_ms: lengthOf(overlap, '--overlap') }
  const made = (await new Remote(flags, terminal).call('POST', `${pathOf(flags)}/rotate`, body)) as TokenView
  return show(flags, terminal, made, (when) => issuedText(made, when))
}

async function revoke({ flags, terminal }: Call): Promise<number> {
  if (!(await confirmed(flags, terminal, `Revoke token ${flags.names[0] ?? ''}`))) return EXIT.refused
  const revoked = (await new Remote(flags, terminal).call('DELETE', pathOf(flags))) as TokenView
  return show(flags, terminal, revoked, () => `${revoked.name} is revoked`)
}

export const TOKEN_GROUP: Group = {
  name: 'token',
  summary: 'tokens of a server',
  more: [
    'Roles:',
    '  read      look at everything',
    '  produce   enqueue, start workflows and journeys, read results',
    '  work      what workers call',
    '  operate   retry, cancel, pause, quiet; includes read',
    '  admin     everything: limits, configuration, deletion, tokens',
  ],
}

export const TOKEN_COMMANDS: readonly Command[] = [
  {
    name: 'token create',
    args: 'NAME',
    summary: 'make a token; its text is printed once and stored nowhere',
    options: {
      role: { value: 'ROLE', many: true, help: `what it may do: ${ROLES.join(', ')}; several times for several` },
      ...SERVER_OPTIONS,
    },
    run: create,
  },
  {
    name: 'token list',
    summary: 'list all tokens: roles, state, last use',
    options: ONE,
    run: list,
  },
  {
    name: 'token rotate',
    args: 'NAME',
    summary: 'make a new secret; the one before stays valid for the overlap',
    options: { overlap: { value: 'LENGTH', help: '30d at most [24h]' }, ...ONE },
    run: rotate,
  },
  {
    name: 'token revoke',
    args: 'NAME',
    summary: 'end a token, its sessions and its open streams at once',
    options: { ...YES, ...SERVER_OPTIONS },
    run: revoke,
  },
]

function show(flags: Flags, terminal: Terminal, answer: unknown, text: (when: Moments) => string): number {
  terminal.write(flags.has('json') ? JSON.stringify(answer, null, 2) : text(momentsIn(flags.has('utc'))))
  return EXIT.fine
}

/** The token stands on a line of its own, and first: `curfew token create … | head -1`. */
function issuedText({ name, roles, token = '', old_secret_until: until }: TokenView, when: Moments): string {
  const old = until === null ? '' : ` The secret before stays valid until ${clean(when(until))}.`
  return `${clean(token)}\n${clean(name)} may ${roles.map(clean).join(', ')}. Keep this token now: it is not shown again.${old}`
}

function listText(tokens: readonly TokenView[], when: Moments): string {
  if (tokens.length === 0) return 'There are no tokens.'
  const rows = tokens.map((token) => [
    token.name,
    token.roles.join(','),
    token.state,
    token.old_secret_until === null
      ? String(token.valid_secrets)
      : `${String(token.valid_secrets)} until ${when(token.old_secret_until)}`,
    token.last_used_at === null ? 'never' : when(token.last_used_at),
  ])
  const table = [['NAME', 'ROLES', 'STATE', 'SECRETS', 'LAST USED'], ...rows].map((row) => row.map(clean))
  return rowsText(table)
}
